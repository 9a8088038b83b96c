"""A network on one machine: a server and sites in namespaces of their own, over links as slow as one likes.

It takes root and iproute2, so Linux.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

SERVER: Final = "10.77.0.1"
"""Address of the server in every such network."""
NAMES: Final = "fedgraft"
"""What the names of namespaces begin with."""


class Refused(Exception):
    """This machine lets nobody make network namespaces."""


def ip(*words: str) -> str:
    """Run iproute2's `ip`. Raises `Refused` where it is not there or may not."""
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Refused("there is no program 'ip' (iproute2)") from error
    if done.returncode:
        raise Refused(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def network(mbits: Sequence[float]) -> Iterator[list[str]]:
    """Yield the namespaces of the server and of sites behind links of so many Mbit/s; they are gone afterwards.

    A bridge joins them; addresses are inside the namespaces alone, and nothing leads out.
    """
    switch, server = f"{NAMES}-sw", f"{NAMES}-srv"
    hosts = [server, *(f"{NAMES}-{number}" for number in range(len(mbits)))]
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for number, host in enumerate(hosts):
            port, address = f"p{number}", SERVER if number == 0 else f"10.77.0.{9 + number}"
            ip("netns", "add", host)
            ip("link", "add", port, "netns", switch, "type", "veth", "peer", "name", "eth0", "netns", host)
            ip("-n", switch, "link", "set", port, "master", "br0", "up")
            ip("-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
            ip("-n", host, "link", "set", "lo", "up")
            if number:
                for space, device in ((host, "eth0"), (switch, port)):
                    shape(space, device, mbits[number - 1])
        yield hosts
    finally:
        for host in [*hosts, switch]:
            subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)


def shape(space: str, device: str, mbit: float) -> None:
    """Limit what a device sends to so many Mbit/s."""
    burst = str(max(4000, int(mbit * 1250)))
    ip(
        *("netns", "exec", space, "tc", "qdisc", "add", "dev", device, "root", "tbf"),
        *("rate", f"{mbit:g}mbit", "burst", burst, "latency", "400ms"),
    )


def counted(server: str) -> int:
    """Return the bytes that the server's interface has sent and received."""
    counters = ip(
        "netns", "exec", server, "cat", *(f"/sys/class/net/eth0/statistics/{way}_bytes" for way in ("rx", "tx"))
    )
    return sum(map(int, counters.split()))


def link(site: str, up: bool) -> None:
    """Break a site's link, or mend it."""
    ip("-n", site, "link", "set", "eth0", "up" if up else "down")

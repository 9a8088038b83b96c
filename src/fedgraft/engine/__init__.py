"""One loop; its two halves, server and client, meet only in the plan and on the wire."""

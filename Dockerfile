# fedgraft on CPUs:
#   docker build -t fedgraft .
#   docker run --rm -v "$PWD:/work" fedgraft run fedacs rounds=2 --out runs/a
FROM python:3.11-slim-bookworm

# PyPI's torch for Linux carries CUDA and is large; this index has builds for CPUs.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE constraints.txt ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt --extra-index-url "${TORCH_INDEX}" ".[federation,serve]" \
    && useradd --create-home --uid 1000 fedgraft \
    && install --directory --owner fedgraft /work

USER 1000
WORKDIR /work
ENTRYPOINT ["fedgraft"]
CMD ["--help"]

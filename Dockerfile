# A container with `haul`, from the Debian package that `make dist` has built:
#
#     docker build --tag longhaul .
#     docker run --rm longhaul --help
#
# scripts/dist-test.sh follows these instructions in a clean Debian root and tests the result. It knows FROM, COPY, RUN, USER,
# WORKDIR and ENTRYPOINT, each on one line. What emulated links need from a container: docs/src/install.md.
FROM debian:bookworm
COPY target/packages/longhaul_*.deb /tmp/
RUN apt-get update && apt-get install --yes /tmp/longhaul_*.deb && rm -r /tmp/longhaul_*.deb /var/lib/apt/lists/*
RUN useradd --create-home haul
USER haul
WORKDIR /home/haul
ENTRYPOINT ["haul"]

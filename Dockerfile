# syntax=docker/dockerfile:1
# The operator's image: two static binaries, the public certificate authorities, nothing else.
# test/lab/deploy builds the same contents without Docker; keep the two alike.
ARG GO_VERSION=1.26

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH
ARG VERSION=unknown COMMIT=unknown DATE=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath \
    -ldflags="-s -w -X main.version=${VERSION} -X main.commit=${COMMIT} -X main.date=${DATE}" \
    -o /manager . && \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath \
    -ldflags="-s -w -X main.version=${VERSION}" -o /exporter ./cmd/exporter

FROM scratch
ARG VERSION=unknown COMMIT=unknown DATE=unknown
LABEL org.opencontainers.image.title="nairobi-mysql-operator" \
      org.opencontainers.image.description="Highly available MySQL on EC2 instances, steered from Kubernetes" \
      org.opencontainers.image.source="https://github.com/alx-ke/nairobi-mysql-operator" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.created="${DATE}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /manager /manager
COPY --from=build /exporter /exporter
USER 65532:65532
ENTRYPOINT ["/manager"]

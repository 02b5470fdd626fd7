# The toolwire binary alone, run by a user without rights. No BuildKit is needed.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o /toolwire ./cmd/toolwire

# Holds CA certificates and time zones, no shell.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /toolwire /toolwire
USER 65532:65532
ENTRYPOINT ["/toolwire"]
CMD ["--help"]

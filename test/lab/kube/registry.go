package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Registry is the lab's image registry, host:port, without TLS. The node asks it for every image, whatever
// registry the image's name starts with.
const Registry = HostAddress + ":5000"

// headerLimit bounds how long a client may take to send a request's head.
const headerLimit = 10 * time.Second

type registryServer struct{ server *http.Server }

// startRegistry serves images from the host's end of the cable: blobs are on disk, manifests in memory.
func (c *Cluster) startRegistry(ctx context.Context) error {
	blobs := filepath.Join(c.layout.state, "registry")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", Registry)
	if err != nil {
		return err
	}
	quiet := log.New(io.Discard, "", 0)
	server := &http.Server{
		Handler:           registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs)), registry.Logger(quiet)),
		ReadHeaderTimeout: headerLimit, ErrorLog: quiet,
	}
	c.registry = &registryServer{server: server}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintf(c.opts.Log, "the image registry ended: %v\n", err)
		}
	}()
	return nil
}

// Close stops the server at once.
func (r *registryServer) Close() error { return r.server.Close() }

// registryName is where the lab keeps the image that pods call ref: the same name without its registry.
func registryName(ref string) (name.Reference, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, err
	}
	separator := ":"
	if _, isDigest := parsed.(name.Digest); isDigest {
		separator = "@"
	}
	return name.ParseReference(Registry+"/"+parsed.Context().RepositoryStr()+separator+parsed.Identifier(), name.Insecure)
}

// PushImage puts an image into the registry of the running lab, where pods find it under the name ref, for
// example "example.com/team/thing:1" or "busybox".
func PushImage(ctx context.Context, ref string, image v1.Image) error {
	target, err := registryName(ref)
	if err != nil {
		return fmt.Errorf("push image %s: %w", ref, err)
	}
	if err := remote.Write(target, image, remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("push image %s: %w", ref, err)
	}
	return nil
}

// Images lists what the registry of the running lab holds, as name:tag without a registry.
func Images(ctx context.Context) ([]string, error) {
	server, err := name.NewRegistry(Registry, name.Insecure)
	if err != nil {
		return nil, err
	}
	repositories, err := remote.Catalog(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var images []string
	for _, repository := range repositories {
		tags, err := remote.List(server.Repo(repository), remote.WithContext(ctx))
		if err != nil {
			return nil, fmt.Errorf("list tags of %s: %w", repository, err)
		}
		for _, tag := range tags {
			images = append(images, repository+":"+tag)
		}
	}
	return images, nil
}

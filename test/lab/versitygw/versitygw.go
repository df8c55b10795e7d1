// Package versitygw runs Versity's S3 gateway over TLS: an implementation of S3 that owes nothing to moto's or to AWS's, as people run one
// in their own data centre, with a certificate of their own authority.
package versitygw

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"k8s.io/client-go/util/cert"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

const (
	// AccessKeyID and SecretAccessKey are its owner's.
	AccessKeyID     = "owner"
	SecretAccessKey = "owners-secret"
	// Region is what it says of its buckets.
	Region = "us-east-1"

	loopback     = "127.0.0.1"
	startTimeout = time.Minute
)

// Server is a running gateway.
type Server struct {
	// Endpoint is its address, https://…
	Endpoint string
	// CABundle is the authority of its certificate, in PEM. No system trusts it.
	CABundle string

	dir     string
	program *host.Attended
}

// Start starts a gateway without buckets. It is built when it is not in the cache, and ends with this process, however that ends.
func Start(ctx context.Context) (s *Server, err error) {
	builds, err := build.NewConfig(os.Stderr)
	if err != nil {
		return nil, err
	}
	path, err := exec.CommandContext(ctx, filepath.Join(builds.RepoDir, "hack", "tool.sh"), "versitygw").Output()
	if err != nil {
		return nil, fmt.Errorf("build versitygw: %w", err)
	}
	s = &Server{}
	if s.dir, err = os.MkdirTemp("", "versitygw-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(s.dir)
		}
	}()
	if err := s.makeFiles(); err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(loopback, port)
	s.Endpoint = "https://" + address
	program := exec.CommandContext(context.WithoutCancel(ctx), strings.TrimSpace(string(path)), "--port", address, "--quiet", "--keep-alive", //nolint:gosec // our own tool
		"--access", AccessKeyID, "--secret", SecretAccessKey, "--region", Region,
		"--cert", filepath.Join(s.dir, "cert.pem"), "--key", filepath.Join(s.dir, "key.pem"),
		// Not every file system has extended attributes, in which it would keep them otherwise.
		"posix", "--sidecar", filepath.Join(s.dir, "metadata"), filepath.Join(s.dir, "buckets"))
	if s.program, err = host.Attend(program, filepath.Join(s.dir, "log")); err != nil {
		return nil, err
	}
	err = s.program.Await(ctx, startTimeout, func(ctx context.Context) bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return err == nil && conn.Close() == nil
	})
	if err != nil {
		s.program.Kill()
		return nil, fmt.Errorf("start versitygw: %w", err)
	}
	return s, nil
}

// makeFiles makes the certificate and the folders.
func (s *Server) makeFiles() error {
	bundle, key, err := cert.GenerateSelfSignedCertKey(loopback, []net.IP{net.ParseIP(loopback)}, nil)
	if err != nil {
		return err
	}
	s.CABundle = string(bundle)
	for name, content := range map[string][]byte{"cert.pem": bundle, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	for _, folder := range []string{"buckets", "metadata"} {
		if err := os.Mkdir(filepath.Join(s.dir, folder), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// freePort returns a port that nobody uses now.
func freePort(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", loopback+":0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// MakeBucket makes a bucket.
func (s *Server) MakeBucket(ctx context.Context, name string) error {
	configuration, err := config.LoadDefaultConfig(ctx, config.WithRegion(Region), config.WithHTTPClient(awshttp.NewBuildableClient()),
		config.WithCustomCABundle(strings.NewReader(s.CABundle)), config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(AccessKeyID, SecretAccessKey, "")))
	if err != nil {
		return err
	}
	api := s3.NewFromConfig(configuration, func(o *s3.Options) { o.BaseEndpoint, o.UsePathStyle = aws.String(s.Endpoint), true })
	_, err = api.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name})
	return err
}

// Stop ends the gateway and removes what it stored.
func (s *Server) Stop() error {
	s.program.Kill()
	return os.RemoveAll(s.dir)
}

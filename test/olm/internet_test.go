//go:build e2e

package olm_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

// internet makes the programs that the test starts find every registry of the internet in the lab's own, by TLS and under
// its real name, as the lab's node does. operator-sdk asks registries from here, and can be told of no mirror.
func internet(t *testing.T) {
	t.Helper()
	chain, key, err := cert.GenerateSelfSignedCertKey("quay.io", nil, []string{"ghcr.io", "registry.access.redhat.com"})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	registry := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: kube.Registry})
		r.SetXForwarded()
	}})
	registry.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	registry.StartTLS()
	t.Cleanup(registry.Close)
	proxy := httptest.NewServer(tunnelTo(registry.Listener.Addr().String()))
	t.Cleanup(proxy.Close)

	trusted := filepath.Join(t.TempDir(), "registries.pem")
	if err := os.WriteFile(trusted, chain, 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", lab.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", trusted)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", server.Hostname())
}

// tunnelTo is a proxy whose every tunnel ends at one address, whatever host it was asked for.
func tunnelTo(address string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		far, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(r.Context(), "tcp", address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer far.Close()
		w.WriteHeader(http.StatusOK)
		near, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer near.Close()
		var both sync.WaitGroup
		both.Go(func() { passOn(far, buffered) })
		both.Go(func() { passOn(near, far) })
		both.Wait()
	}
}

// passOn copies until the source ends, and then ends the other's reading too.
func passOn(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

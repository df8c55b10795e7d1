package manager

import (
	"maps"
	"testing"

	"github.com/go-logr/logr"
)

func TestBackupPodsGoThroughTheSameProxy(t *testing.T) {
	for _, c := range []struct{ env, want map[string]string }{
		{nil, map[string]string{}},
		{map[string]string{"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".svc,10.0.0.0/8", "PATH": "/bin"},
			map[string]string{"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".svc,10.0.0.0/8"}},
		{map[string]string{"https_proxy": "proxy:3128", "HTTP_PROXY": "http://other:1", "http_proxy": "http://not-this:1"},
			map[string]string{"HTTPS_PROXY": "proxy:3128", "HTTP_PROXY": "http://other:1"}},
		{map[string]string{"HTTPS_PROXY": "http://me:secret@proxy:3128", "HTTP_PROXY": "me:secret@proxy:3128", "NO_PROXY": "a@b"},
			map[string]string{"NO_PROXY": "a@b"}},
		{map[string]string{"HTTPS_PROXY": "http://pro xy:3128", "HTTP_PROXY": "http://%zz@proxy"}, map[string]string{}},
	} {
		if got := proxy(func(name string) string { return c.env[name] }, logr.Discard()); !maps.Equal(got, c.want) {
			t.Errorf("of %v the pods are told %v, want %v", c.env, got, c.want)
		}
	}
}

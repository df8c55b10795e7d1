package moto

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// closable is a body of which nothing can be read once it is closed, as that of the SDK.
type closable struct {
	io.Reader
	closed bool
}

func (c *closable) Read(p []byte) (int, error) {
	if c.closed {
		return 0, io.ErrClosedPipe
	}
	return c.Reader.Read(p)
}

func (c *closable) Close() error {
	c.closed = true
	return nil
}

// later reads the body when the caller's is closed, as net/http may.
type later struct {
	t    *testing.T
	sent *closable
}

func (l later) RoundTrip(r *http.Request) (*http.Response, error) {
	if !l.sent.closed {
		l.t.Error("the caller's body is not closed")
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestABodyIsSentThoughItsOwnerHasClosedIt(t *testing.T) {
	const form = "Action=DescribeVpcs"
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != form || r.ContentLength != int64(len(form)) {
			t.Errorf("got %q of %d bytes: %v", got, r.ContentLength, err)
		}
	}))
	defer server.Close()
	body := &closable{Reader: strings.NewReader(form)}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = int64(len(form))
	answer, err := (whole{later{t, body}}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
}

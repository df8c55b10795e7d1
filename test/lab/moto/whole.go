package moto

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// sender sends the requests of Config.
var sender = &http.Client{
	Transport:     whole{http.DefaultTransport},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// whole hands a request's body over in one piece. smithy-go closes the body as soon as the head of the answer is there. net/http may still be
// looking whether more of the body follows; it takes the end of a closed one for a failed write, and closes the connection before the answer is
// read. That befalls one call in a thousand to a server as near as this one. Of a body in memory net/http sees the end at once.
type whole struct{ next http.RoundTripper }

func (w whole) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return w.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return w.next.RoundTrip(r)
}

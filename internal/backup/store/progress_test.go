package store

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestAcceptedBytesAreCounted while an upload is under way, by both kinds of stores.
func TestAcceptedBytesAreCounted(t *testing.T) {
	const size = 4 << 20
	var accepted atomic.Int64
	ctx := WithProgress(t.Context(), &accepted)
	halfway := make(chan int64, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, size/2)
		for deadline := time.Now().Add(10 * time.Second); accepted.Load() == 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		}
		halfway <- accepted.Load()
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	s3, err := NewS3(ctx, S3Options{Bucket: "b", Region: "eu-west-1", Endpoint: server.URL, AccessKeyID: "a", SecretAccessKey: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s3.Put(ctx, "k", bytes.NewReader(make([]byte, size))); err != nil {
		t.Fatal(err)
	}
	if got := <-halfway; got == 0 || accepted.Load() < size {
		t.Errorf("counted are %d bytes on the way and %d at the end", got, accepted.Load())
	}
	accepted.Store(0)
	folder, err := NewFolder(t.TempDir(), "pvc://backups")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Put(ctx, "k", bytes.NewReader(make([]byte, size))); err != nil || accepted.Load() != size {
		t.Errorf("counted are %d bytes: %v", accepted.Load(), err)
	}
}

// synced counts how often a file is brought to the disk.
type synced struct {
	bytes.Buffer
	n int
}

func (s *synced) Sync() error { s.n++; return nil }

// TestAFileIsWrittenInPieces so that its end does not wait for all of it.
func TestAFileIsWrittenInPieces(t *testing.T) {
	file := &synced{}
	w := &acceptingWriter{ctx: t.Context(), file: file}
	for range 5 {
		if _, err := w.Write(make([]byte, syncEach/2)); err != nil {
			t.Fatal(err)
		}
	}
	if file.n != 2 {
		t.Errorf("it was synchronised %d times", file.n)
	}
}

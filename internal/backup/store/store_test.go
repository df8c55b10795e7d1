package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/versitygw"
)

var cloud struct {
	once   sync.Once
	server *moto.Server
	err    error
}

// gateway is another implementation of S3.
var gateway struct {
	once   sync.Once
	server *versitygw.Server
	err    error
}

// newGatewayStore returns the store in a bucket of its own of the other implementation.
func newGatewayStore(t *testing.T) *S3 {
	t.Helper()
	gateway.once.Do(func() { gateway.server, gateway.err = versitygw.Start(context.Background()) })
	must(t, gateway.err)
	bucket := fmt.Sprintf("backups-%d", buckets.Add(1))
	must(t, gateway.server.MakeBucket(t.Context(), bucket))
	s, err := NewS3(t.Context(), S3Options{Bucket: bucket, Prefix: "team/mysql", Region: versitygw.Region, Endpoint: gateway.server.Endpoint, CABundle: gateway.server.CABundle,
		AccessKeyID: versitygw.AccessKeyID, SecretAccessKey: versitygw.SecretAccessKey, Attempts: 4, MaxPause: 10 * time.Millisecond})
	must(t, err)
	return s
}

func TestMain(m *testing.M) {
	code := m.Run()
	if gateway.server != nil {
		if err := gateway.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if cloud.server != nil {
		if err := cloud.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// world is moto's S3 with a bucket of the test's own, and a proxy that misbehaves as it is told.
type world struct {
	t *testing.T
	// fault answers a request instead of moto when it returns true.
	fault    atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	endpoint string
	bucket   string
}

var buckets atomic.Int64

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldBehind(t, func(h http.Handler) *httptest.Server {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server
	})
}

// newWorldOverTLS is a world whose S3 speaks TLS, with a certificate that the SDK trusts.
func newWorldOverTLS(t *testing.T) *world {
	t.Helper()
	return newWorldBehind(t, func(h http.Handler) *httptest.Server {
		server := httptest.NewTLSServer(h)
		t.Cleanup(server.Close)
		bundle := filepath.Join(t.TempDir(), "ca.pem")
		must(t, os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
		t.Setenv("AWS_CA_BUNDLE", bundle)
		return server
	})
}

func newWorldBehind(t *testing.T, serve func(http.Handler) *httptest.Server) *world {
	t.Helper()
	cloud.once.Do(func() { cloud.server, cloud.err = moto.Start(context.Background(), moto.Options{}) })
	if cloud.err != nil {
		t.Fatal(cloud.err)
	}
	w := &world{t: t, bucket: fmt.Sprintf("backups-%d", buckets.Add(1))}
	upstream, err := url.Parse(cloud.server.Endpoint())
	must(t, err)
	pass := httputil.NewSingleHostReverseProxy(upstream)
	w.endpoint = serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if f := w.fault.Load(); f != nil && (*f)(rw, r) {
			return
		}
		pass.ServeHTTP(rw, r)
	})).URL
	_, err = w.s3("").api.(*s3.Client).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &w.bucket})
	must(t, err)
	return w
}

func (w *world) s3(prefix string) *S3 {
	w.t.Helper()
	s, err := NewS3(w.t.Context(), S3Options{Bucket: w.bucket, Prefix: prefix, Region: "us-east-1", Endpoint: w.endpoint,
		AccessKeyID: "lab", SecretAccessKey: "lab", Attempts: 4, MaxPause: 10 * time.Millisecond})
	must(w.t, err)
	return s
}

func (w *world) misbehave(f func(http.ResponseWriter, *http.Request) bool) { w.fault.Store(&f) }

// refuse answers as S3 does.
func refuse(rw http.ResponseWriter, r *http.Request, status int, code string) bool {
	_, _ = io.Copy(io.Discard, r.Body)
	rw.Header().Set("Content-Type", "application/xml")
	rw.WriteHeader(status)
	fmt.Fprintf(rw, `<?xml version="1.0"?><Error><Code>%s</Code><Message>as the test wants it</Message><RequestId>%d</RequestId></Error>`, code, time.Now().UnixNano())
	return true
}

// orphans are the multipart uploads that nobody completed or aborted.
func (w *world) orphans() int {
	w.t.Helper()
	list, err := w.s3("").api.ListMultipartUploads(w.t.Context(), &s3.ListMultipartUploadsInput{Bucket: &w.bucket})
	must(w.t, err)
	return len(list.Uploads)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keys(t *testing.T, s Store, prefix string) string {
	t.Helper()
	var found []string
	for o, err := range s.List(t.Context(), prefix) {
		must(t, err)
		found = append(found, fmt.Sprintf("%s:%d", o.Key, o.Size))
	}
	return strings.Join(found, " ")
}

func read(t *testing.T, s Store, key string) []byte {
	t.Helper()
	r, err := s.Get(t.Context(), key)
	must(t, err)
	defer r.Close()
	content, err := io.ReadAll(r)
	must(t, err)
	return content
}

// TestAnUnknownAuthority: a store with a certificate that nobody vouches for is not written to, and the error says so.
func TestAnUnknownAuthority(t *testing.T) {
	known := newGatewayStore(t)
	for name, bundle := range map[string]string{"none given": "", "another": string(authorityOf(t))} {
		o := known.o
		o.CABundle = bundle
		s, err := NewS3(t.Context(), o)
		must(t, err)
		if _, err := s.Put(t.Context(), "a", strings.NewReader("secret")); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := known.o
	o.CABundle = "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"
	if _, err := NewS3(t.Context(), o); err == nil || !strings.Contains(err.Error(), "CA") {
		t.Errorf("nonsense for an authority: %v", err)
	}
}

// authorityOf is the certificate of a server that has nothing to do with the store.
func authorityOf(t *testing.T) []byte {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// stores are the same tests on both kinds.
func stores(t *testing.T, f func(t *testing.T, s Store)) {
	t.Run("s3", func(t *testing.T) { f(t, newWorld(t).s3("")) })
	t.Run("s3 with a prefix", func(t *testing.T) { f(t, newWorld(t).s3("team/a!_.*'()=+@:,-b")) })
	t.Run("another S3, over TLS", func(t *testing.T) { f(t, newGatewayStore(t)) })
	t.Run("folder", func(t *testing.T) {
		s, err := NewFolder(t.TempDir(), "pvc://backups")
		must(t, err)
		f(t, s)
	})
}

func TestObjects(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		ctx := t.Context()
		if _, err := s.Get(ctx, "a/b"); !errors.Is(err, ErrNotFound) {
			t.Errorf("what is not there: %v", err)
		}
		if got := keys(t, s, ""); got != "" {
			t.Errorf("an empty store has %s", got)
		}
		for key, content := range map[string]string{"a/b": "one", "a/c/d": "", "a-b": "three", "ab": "four"} {
			n, err := s.Put(ctx, key, strings.NewReader(content))
			if err != nil || n != int64(len(content)) {
				t.Fatalf("%s: %d, %v", key, n, err)
			}
		}
		if got := keys(t, s, ""); got != "a-b:5 a/b:3 a/c/d:0 ab:4" {
			t.Errorf("the list is %s", got)
		}
		if got := keys(t, s, "a/"); got != "a/b:3 a/c/d:0" {
			t.Errorf("below a/ is %s", got)
		}
		if got := keys(t, s, "b/"); got != "" {
			t.Errorf("below b/ is %s", got)
		}
		folders, err := Folders(ctx, s, "a/")
		if err != nil || strings.Join(folders, " ") != "c" {
			t.Errorf("the folders of a/ are %v, %v", folders, err)
		}
		if got := string(read(t, s, "a/b")); got != "one" {
			t.Errorf("a/b holds %q", got)
		}
		_, err = s.Put(ctx, "a/b", strings.NewReader("another"))
		must(t, err)
		if got := string(read(t, s, "a/b")); got != "another" {
			t.Errorf("a/b holds %q", got)
		}
		if err := s.Create(ctx, "a/b", strings.NewReader("x")); !errors.Is(err, ErrExists) {
			t.Errorf("made again: %v", err)
		}
		must(t, s.Create(ctx, "n/e/w", strings.NewReader("new")))
		if got := string(read(t, s, "n/e/w")) + string(read(t, s, "a/b")); got != "newanother" {
			t.Errorf("the objects hold %q", got)
		}
		if _, err := ReadAll(ctx, s, "a/b", 3); err == nil {
			t.Error("a large object was read as a small one")
		}
		must(t, s.Delete(ctx, "a/b", "a/c/d", "is/not/there", "n/e/w"))
		if got := keys(t, s, ""); got != "a-b:5 ab:4" {
			t.Errorf("left are %s", got)
		}
		if n, err := s.Sweep(ctx, ""); n != 0 || err != nil {
			t.Errorf("swept %d, %v", n, err)
		}
	})
}

// TestOnlyOneCreates has several create the same object at the same time, in one call and in parts.
func TestOnlyOneCreates(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		for name, size := range map[string]int{"small": 1, "large": partSize + 1} {
			var made atomic.Int32
			var winner byte
			var group sync.WaitGroup
			for i := range byte(8) {
				group.Go(func() {
					if err := s.Create(t.Context(), name, bytes.NewReader(bytes.Repeat([]byte{i}, size))); err == nil {
						made.Add(1)
						winner = i
					} else if !errors.Is(err, ErrExists) {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if made.Load() != 1 {
				t.Fatalf("%d made %s", made.Load(), name)
			}
			if err := s.Create(t.Context(), name, bytes.NewReader(make([]byte, size))); !errors.Is(err, ErrExists) {
				t.Errorf("%s was made again: %v", name, err)
			}
			if got := read(t, s, name); !bytes.Equal(got, bytes.Repeat([]byte{winner}, size)) {
				t.Errorf("%s is not what was made", name)
			}
		}
	})
}

// endless is a stream of n random bytes, hashed as it is read, that may end with an error.
type endless struct {
	left  int64
	hash  hash.Hash
	err   error
	block []byte
}

func random(n int64, err error) *endless {
	e := &endless{left: n, hash: sha256.New(), err: err, block: make([]byte, 64<<10)}
	_, _ = rand.Read(e.block)
	return e
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, e.err
	}
	n := copy(p[:min(int64(len(p)), e.left)], e.block)
	_, _ = e.hash.Write(p[:n])
	e.left -= int64(n)
	return n, nil
}

func TestALargeObjectTakesLittleMemory(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		const size = 96 << 20
		source := random(size, io.EOF)
		runtime.GC()
		var peak atomic.Uint64
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak.Store(max(peak.Load(), m.HeapInuse))
				}
			}
		}()
		n, err := s.Put(t.Context(), "large", source)
		close(stop)
		if err != nil || n != size {
			t.Fatalf("%d, %v", n, err)
		}
		if peak.Load() > 90<<20 {
			t.Errorf("%d MiB of memory", peak.Load()>>20)
		}
		r, err := s.Get(t.Context(), "large")
		must(t, err)
		defer r.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sum.Sum(nil), source.hash.Sum(nil)) {
			t.Error("it holds something else")
		}
	})
}

// TestWhatIsGivenUpIsNotThere: the source fails, or the context ends, before and after the first part was uploaded.
func TestWhatIsGivenUpIsNotThere(t *testing.T) {
	broken := errors.New("mysqldump ended")
	for _, size := range []int64{0, 1000, 20 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w := newWorld(t)
			folder, err := NewFolder(t.TempDir(), "pvc://backups")
			must(t, err)
			for _, s := range []Store{w.s3("p"), folder} {
				if _, err := s.Put(t.Context(), "a/b", random(size, broken)); !errors.Is(err, broken) {
					t.Errorf("the reason is lost: %v", err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				cause := errors.New("stuck")
				source := io.MultiReader(random(size, io.EOF), readerFunc(func([]byte) (int, error) { cancel(cause); return 0, nil }))
				if _, err := s.Put(ctx, "a/b", source); !errors.Is(err, cause) {
					t.Errorf("the reason is lost: %v", err)
				}
				if got := keys(t, s, ""); got != "" {
					t.Errorf("it left %s", got)
				}
				if n, err := s.Sweep(t.Context(), ""); n != 0 || err != nil {
					t.Errorf("it left %d uploads, %v", n, err)
				}
			}
			if n := w.orphans(); n != 0 {
				t.Errorf("%d orphans", n)
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestFaults has S3 answer a multipart upload as it does on bad days.
func TestFaults(t *testing.T) {
	isPart := func(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Query().Has("partNumber") }
	for name, row := range map[string]struct {
		// fault answers the n-th try of a part.
		fault func(n int64, rw http.ResponseWriter, r *http.Request) bool
		want  error // nil: it succeeds all the same
	}{
		"throttled for a while": {func(n int64, rw http.ResponseWriter, r *http.Request) bool {
			return isPart(r) && n <= 2 && refuse(rw, r, http.StatusServiceUnavailable, "SlowDown")
		}, nil},
		"an internal error for a while": {func(n int64, rw http.ResponseWriter, r *http.Request) bool {
			return isPart(r) && n == 1 && refuse(rw, r, http.StatusInternalServerError, "InternalError")
		}, nil},
		"throttled for good": {func(_ int64, rw http.ResponseWriter, r *http.Request) bool {
			return isPart(r) && refuse(rw, r, http.StatusServiceUnavailable, "SlowDown")
		}, ErrUnavailable},
		"an internal error at the third part": {func(_ int64, rw http.ResponseWriter, r *http.Request) bool {
			return isPart(r) && r.URL.Query().Get("partNumber") == "3" && refuse(rw, r, http.StatusInternalServerError, "InternalError")
		}, ErrUnavailable},
		"an internal error at the end": {func(_ int64, rw http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") && refuse(rw, r, http.StatusInternalServerError, "InternalError")
		}, ErrUnavailable},
		"wrong keys": {func(_ int64, rw http.ResponseWriter, r *http.Request) bool {
			return !isList(r) && refuse(rw, r, http.StatusForbidden, "InvalidAccessKeyId")
		}, ErrDenied},
		"a wrong signature": {func(_ int64, rw http.ResponseWriter, r *http.Request) bool {
			return !isList(r) && refuse(rw, r, http.StatusForbidden, "SignatureDoesNotMatch")
		}, ErrDenied},
		"denied in the middle": {func(_ int64, rw http.ResponseWriter, r *http.Request) bool {
			return isPart(r) && r.URL.Query().Get("partNumber") == "2" && refuse(rw, r, http.StatusForbidden, "AccessDenied")
		}, ErrDenied},
		"full": {func(_ int64, rw http.ResponseWriter, r *http.Request) bool {
			return isPart(r) && refuse(rw, r, http.StatusInsufficientStorage, "XMinioStorageFull")
		}, ErrFull},
		"gone in the middle": {func(_ int64, rw http.ResponseWriter, r *http.Request) bool {
			return isPart(r) && r.URL.Query().Get("partNumber") == "2" && refuse(rw, r, http.StatusNotFound, "NoSuchBucket")
		}, ErrNoBucket},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var mu sync.Mutex
			tried := map[string]int64{} // by part: several are on their way at a time
			w.misbehave(func(rw http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				part := r.URL.Query().Get("partNumber")
				tried[part]++
				n := tried[part]
				mu.Unlock()
				return row.fault(n, rw, r)
			})
			s := w.s3("p")
			source := random(40<<20, io.EOF)
			_, err := s.Put(t.Context(), "a", source)
			w.misbehave(func(http.ResponseWriter, *http.Request) bool { return false })
			if !errors.Is(err, row.want) {
				t.Fatalf("got %v, want %v", err, row.want)
			}
			if row.want == nil {
				sum := sha256.Sum256(read(t, s, "a"))
				if !bytes.Equal(sum[:], source.hash.Sum(nil)) {
					t.Error("it holds something else")
				}
			} else if got := keys(t, s, ""); got != "" {
				t.Errorf("it left %s", got)
			}
			if n := w.orphans(); n != 0 {
				t.Errorf("%d orphans", n)
			}
			if err != nil && strings.Contains(err.Error(), "RequestID") {
				t.Errorf("the message differs each time: %v", err)
			}
		})
	}
}

// TestAStoreWithoutTrailers speaks TLS, over which the SDK sends its checksums as trailers unless told otherwise, and rejects such
// bodies in the two ways in which stores other than AWS do.
func TestAStoreWithoutTrailers(t *testing.T) {
	for name, reject := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"it does not implement them": func(rw http.ResponseWriter, r *http.Request) bool {
			return refuse(rw, r, http.StatusNotImplemented, "NotImplemented")
		},
		"it compares the header with the body": func(rw http.ResponseWriter, r *http.Request) bool {
			return refuse(rw, r, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOverTLS(t)
			isChunked := func(r *http.Request) bool {
				return strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") || r.Header.Get("X-Amz-Trailer") != "" ||
					strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-")
			}
			w.misbehave(func(rw http.ResponseWriter, r *http.Request) bool {
				if r.TLS == nil {
					t.Error("a request came without TLS")
				}
				return isChunked(r) && reject(rw, r)
			})
			s := w.s3("p")
			for _, size := range []int64{0, 1000, 2*partSize + 1} {
				key, source := fmt.Sprint("put-", size), random(size, io.EOF)
				_, err := s.Put(t.Context(), key, source)
				must(t, err)
				if sum := sha256.Sum256(read(t, s, key)); !bytes.Equal(sum[:], source.hash.Sum(nil)) {
					t.Errorf("%s holds something else", key)
				}
				must(t, s.Create(t.Context(), fmt.Sprint("create-", size), random(size, io.EOF)))
				if err := s.Create(t.Context(), key, random(size, io.EOF)); !errors.Is(err, ErrExists) {
					t.Errorf("%s was made again: %v", key, err)
				}
				must(t, s.Delete(t.Context(), key, fmt.Sprint("create-", size)))
			}
			// A bucket of AWS keeps the SDK's checksums, so its client is the one that such a store rejects.
			t.Setenv("AWS_ENDPOINT_URL_S3", w.endpoint)
			aws, err := NewS3(t.Context(), S3Options{Bucket: w.bucket, Region: "us-east-1", AccessKeyID: "lab", SecretAccessKey: "lab", Attempts: 1})
			must(t, err)
			for _, size := range []int64{1000, partSize + 1} {
				if _, err := aws.Put(t.Context(), "x", random(size, io.EOF)); err == nil {
					t.Errorf("%d bytes for AWS carry no checksum", size)
				}
			}
		})
	}
}

// TestConflictOfConditionalWrites: S3 answers 409 to one of two conditional writes of a key that run at once, also when neither has
// been completed. The object may still be missing, so the caller has to upload again.
func TestConflictOfConditionalWrites(t *testing.T) {
	for name, size := range map[string]int64{"in one call": 1000, "in parts": partSize + 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.s3("p")
			must(t, s.Create(t.Context(), "before", random(0, io.EOF)))
			must(t, s.Delete(t.Context(), "before"))
			var answered atomic.Bool
			w.misbehave(func(rw http.ResponseWriter, r *http.Request) bool {
				return r.Header.Get("If-None-Match") == "*" && answered.CompareAndSwap(false, true) &&
					refuse(rw, r, http.StatusConflict, "ConditionalRequestConflict")
			})
			if err := s.Create(t.Context(), "a", random(size, io.EOF)); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrExists) {
				t.Errorf("a conflict is %v", err)
			}
			if got := keys(t, s, ""); got != "" || w.orphans() != 0 {
				t.Errorf("it left %q and %d uploads", got, w.orphans())
			}
			must(t, s.Create(t.Context(), "a", random(size, io.EOF)))
			if err := s.Create(t.Context(), "a", random(size, io.EOF)); !errors.Is(err, ErrExists) {
				t.Errorf("it was made again: %v", err)
			}
		})
	}
}

// TestAStoreThatOverwrites ignores the condition of some writes, as stores other than AWS do: nothing is created there, and what is
// there stays.
func TestAStoreThatOverwrites(t *testing.T) {
	for name, row := range map[string]struct {
		ignores func(*http.Request) bool
		want    error
	}{
		"all conditions":              {func(*http.Request) bool { return true }, ErrOverwrites},
		"those of writes in one call": {func(r *http.Request) bool { return r.Method == http.MethodPut }, ErrOverwrites},
		"those of multipart uploads":  {func(r *http.Request) bool { return r.Method == http.MethodPost }, ErrOverwrites},
		"none":                        {func(*http.Request) bool { return false }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.s3("p")
			var conditions atomic.Int64
			w.misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("If-None-Match") != "" {
					conditions.Add(1)
				}
				if row.ignores(r) {
					r.Header.Del("If-None-Match")
				}
				return false
			})
			_, err := s.Put(t.Context(), "there", strings.NewReader("kept"))
			must(t, err)
			if err := s.Create(t.Context(), "new", strings.NewReader("x")); !errors.Is(err, row.want) {
				t.Errorf("created: %v, want %v", err, row.want)
			}
			if err := s.Create(t.Context(), "there", strings.NewReader("lost")); err == nil || row.want == nil && !errors.Is(err, ErrExists) {
				t.Errorf("created over what is there: %v", err)
			}
			want := "there:4"
			if row.want == nil {
				want = "new:1 there:4"
				if n := conditions.Load(); n != 4 { // two tries, and two objects
					t.Errorf("%d conditional writes, want 4", n)
				}
			}
			if got := keys(t, s, ""); got != want || string(read(t, s, "there")) != "kept" || w.orphans() != 0 {
				t.Errorf("it holds %s and %d uploads, want %s", got, w.orphans(), want)
			}
		})
	}
}

func isList(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Query().Has("uploads") }

func TestNoBucket(t *testing.T) {
	w := newWorld(t)
	w.bucket = "is-not-there"
	s := w.s3("")
	if _, err := s.Put(t.Context(), "a", random(20<<20, io.EOF)); !errors.Is(err, ErrNoBucket) {
		t.Errorf("a large one: %v", err)
	}
	if _, err := s.Put(t.Context(), "a", strings.NewReader("x")); !errors.Is(err, ErrNoBucket) {
		t.Errorf("a small one: %v", err)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, ErrNoBucket) {
		t.Errorf("reading: %v", err)
	}
	for _, err := range s.List(t.Context(), "") {
		if !errors.Is(err, ErrNoBucket) {
			t.Errorf("listing: %v", err)
		}
	}
	if _, err := NewFolder("/is/not/there", "pvc://x"); !errors.Is(err, ErrNoBucket) {
		t.Errorf("no folder: %v", err)
	}
}

// TestADownloadGoesOn cuts the connection twice in the middle of an object.
// TestASilentBucket takes connections and requests, and never answers: whoever waits must not wait for ever.
// TestEncryption: every object is stored with the key that the destination names, however it is uploaded, and without one as the
// bucket has it by default.
func TestEncryption(t *testing.T) {
	const id = "1234abcd-12ab-34cd-56ef-1234567890ab"
	for _, key := range []string{"", id, "mrk-1234abcd12ab34cd56ef1234567890ab", "alias/backups", "arn:aws:kms:us-east-1:111122223333:key/" + id, "arn:aws:kms:us-east-1:111122223333:alias/backups"} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t)
			s, err := NewS3(t.Context(), S3Options{Bucket: w.bucket, Prefix: "p", Region: "us-east-1", Endpoint: w.endpoint, AccessKeyID: "lab", SecretAccessKey: "lab", KMSKeyID: key})
			must(t, err)
			for name, store := range map[string]func(key string, r io.Reader) error{
				"put":    func(key string, r io.Reader) error { _, err := s.Put(t.Context(), key, r); return err },
				"create": func(key string, r io.Reader) error { return s.Create(t.Context(), key, r) },
			} {
				for _, size := range []int64{0, 1000, 2*partSize + 1} {
					object := fmt.Sprintf("%s-%d", name, size)
					must(t, store(object, random(size, io.EOF)))
					head, err := s.api.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &w.bucket, Key: aws.String("p/" + object)})
					must(t, err)
					if kms := head.ServerSideEncryption == types.ServerSideEncryptionAwsKms; aws.ToString(head.SSEKMSKeyId) != key || kms != (key != "") || aws.ToInt64(head.ContentLength) != size {
						t.Errorf("%s has %d bytes, encrypted by %q with %q", object, aws.ToInt64(head.ContentLength), head.ServerSideEncryption, aws.ToString(head.SSEKMSKeyId))
					}
				}
			}
		})
	}
}

// TestBucketNames: those that S3 allows are found, also where a name has dots, for which no certificate of *.s3.….amazonaws.com stands.
func TestBucketNames(t *testing.T) {
	for _, name := range []string{"a-b", "0-0", "a--b", "a.b", "3.14", "1.2.3.4.5", "b-10.0.0.1", "my.own-backups.2026", "0." + strings.Repeat("z", 59) + ".9"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.bucket = name
			s := w.s3("p")
			_, err := s.api.(*s3.Client).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name})
			must(t, err)
			_, err = s.Put(t.Context(), "small", strings.NewReader("x"))
			must(t, err)
			_, err = s.Put(t.Context(), "large", random(partSize+1, io.EOF))
			must(t, err)
			if got := keys(t, s, ""); got != fmt.Sprintf("large:%d small:1", partSize+1) || string(read(t, s, "small")) != "x" {
				t.Errorf("it holds %s", got)
			}
			must(t, s.Delete(t.Context(), "small", "large"))
			if n, err := s.Sweep(t.Context(), ""); n != 0 || err != nil || keys(t, s, "") != "" {
				t.Errorf("swept %d, %v, left %s", n, err, keys(t, s, ""))
			}

			aws, err := NewS3(t.Context(), S3Options{Bucket: name, Prefix: "p", Region: "eu-west-1", AccessKeyID: "lab", SecretAccessKey: "lab"})
			must(t, err)
			asked, err := s3.NewPresignClient(aws.api.(*s3.Client)).PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: &name, Key: new("p/x")})
			must(t, err)
			where := "https://" + name + ".s3.eu-west-1.amazonaws.com/p/x"
			if strings.Contains(name, ".") {
				where = "https://s3.eu-west-1.amazonaws.com/" + name + "/p/x"
			}
			if got, _, _ := strings.Cut(asked.URL, "?"); got != where {
				t.Errorf("it is asked for at %s, not %s", got, where)
			}
		})
	}
}

func TestASilentBucket(t *testing.T) {
	over := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-over
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(over) })
	s, err := NewS3(t.Context(), S3Options{Bucket: "b", Region: "us-east-1", Endpoint: silent.URL, AccessKeyID: "a", SecretAccessKey: "b",
		Attempts: 2, MaxPause: time.Millisecond, Silence: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Create(t.Context(), "segment", strings.NewReader("x")) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("what nobody acknowledged counts as stored")
		}
	case <-time.After(time.Minute):
		t.Fatal("a bucket that never answers is waited for without an end")
	}
}

// TestADownloadThatStalls: connections that stop in the middle and stay open. It is taken up where it stopped, as long as that
// brings anything, and fails otherwise.
func TestADownloadThatStalls(t *testing.T) {
	const content, piece = "0123456789", 3
	var mu sync.Mutex
	var begins []int // of the requests
	begun := func() []int {
		mu.Lock()
		defer mu.Unlock()
		found := begins
		begins = nil
		return found
	}
	over := make(chan struct{})
	stalling := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		from := 0
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
			rw.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		}
		mu.Lock()
		begins = append(begins, from)
		mu.Unlock()
		rw.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
		rw.Header().Set("ETag", `"e"`)
		if from > 0 {
			rw.WriteHeader(http.StatusPartialContent)
		}
		send := min(piece, len(content)-from)
		if strings.HasSuffix(r.URL.Path, "/nothing") {
			send = 0
		}
		_, _ = io.WriteString(rw, content[from:from+send])
		rw.(http.Flusher).Flush()
		if from+send < len(content) {
			select {
			case <-over:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(stalling.Close)
	t.Cleanup(func() { close(over) })
	s, err := NewS3(t.Context(), S3Options{Bucket: "b", Region: "us-east-1", Endpoint: stalling.URL, AccessKeyID: "a", SecretAccessKey: "b",
		Attempts: 2, MaxPause: time.Millisecond, Idle: 100 * time.Millisecond})
	must(t, err)
	got := read(t, s, "some")
	// A piece may come too late for its reader, and is asked for again then.
	if from := begun(); string(got) != content || !slices.Equal(slices.Compact(from), []int{0, 3, 6, 9}) {
		t.Errorf("it read %q in requests from %v on", got, from)
	}
	_, err = ReadAll(t.Context(), s, "nothing", 1<<20)
	if from := begun(); !errors.Is(err, ErrUnavailable) || len(from) != resumes+1 {
		t.Errorf("where nothing comes: %v after requests from %v on", err, from)
	}
	// Who reads slowly is not late.
	body, err := s.Get(t.Context(), "slowly")
	must(t, err)
	defer body.Close()
	time.Sleep(300 * time.Millisecond)
	if n, err := body.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("after a pause of the reader: %d, %v", n, err)
	}
}

func TestADownloadGoesOn(t *testing.T) {
	w := newWorld(t)
	s := w.s3("")
	source := random(6<<20, io.EOF)
	_, err := s.Put(t.Context(), "a", source)
	must(t, err)
	var gets atomic.Int64
	w.misbehave(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || gets.Add(1) > 2 {
			return false
		}
		request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, cloud.server.Endpoint()+r.URL.RequestURI(), nil)
		must(t, err)
		request.Header = r.Header.Clone()
		answer, err := http.DefaultClient.Do(request)
		must(t, err)
		defer answer.Body.Close()
		for k, v := range answer.Header {
			rw.Header()[k] = v
		}
		rw.WriteHeader(answer.StatusCode)
		_, _ = io.CopyN(rw, answer.Body, 1<<20)
		panic(http.ErrAbortHandler)
	})
	sum := sha256.Sum256(read(t, s, "a"))
	if !bytes.Equal(sum[:], source.hash.Sum(nil)) {
		t.Error("it read something else")
	}
	if gets.Load() != 3 {
		t.Errorf("%d requests", gets.Load())
	}
}

// TestSweepEndsWhatAKilledPodLeft: uploads below the prefix go, others stay.
func TestSweepEndsWhatAKilledPodLeft(t *testing.T) {
	w := newWorld(t)
	s := w.s3("p")
	for _, key := range []string{"p/a/1", "p/a/2", "p/b/1"} {
		_, err := s.api.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &w.bucket, Key: aws.String(key)})
		must(t, err)
	}
	if n, err := s.Sweep(t.Context(), "a/"); n != 2 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if n := w.orphans(); n != 1 {
		t.Errorf("%d are left", n)
	}
	folder, err := NewFolder(t.TempDir(), "pvc://backups")
	must(t, err)
	for _, name := range []string{"a", "b"} {
		must(t, os.MkdirAll(folder.root+"/"+name, 0o700))
		must(t, os.WriteFile(folder.root+"/"+name+"/"+partial+"1", []byte("x"), 0o600))
	}
	if n, err := folder.Sweep(t.Context(), "a/"); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if _, err := os.Stat(folder.root + "/b/" + partial + "1"); err != nil {
		t.Error(err)
	}
}

// TestKeysStayInside: no key leads out of a folder.
func TestKeysStayInside(t *testing.T) {
	folder, err := NewFolder(t.TempDir(), "pvc://backups")
	must(t, err)
	for _, key := range []string{"../x", "/etc/passwd", "a/../../x", "a//b", "", ".", "a/./b", "a\x00b"} {
		if _, err := folder.Put(t.Context(), key, strings.NewReader("x")); err == nil {
			t.Errorf("%q was taken", key)
		}
		if _, err := folder.Get(t.Context(), key); err == nil {
			t.Errorf("%q was read", key)
		}
		if key != "" {
			if err := folder.Delete(t.Context(), key); err == nil {
				t.Errorf("%q was deleted", key)
			}
		}
	}
}

// TestAFullVolume writes more than a small file system holds.
func TestAFullVolume(t *testing.T) {
	dir := t.TempDir()
	mountSmall(t, dir, 1<<20)
	folder, err := NewFolder(dir, "pvc://backups")
	must(t, err)
	if _, err := folder.Put(t.Context(), "a/b", random(4<<20, io.EOF)); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	if got := keys(t, folder, ""); got != "" {
		t.Errorf("it left %s", got)
	}
	if n, err := folder.Sweep(t.Context(), ""); n != 0 || err != nil {
		t.Errorf("it left %d files, %v", n, err)
	}
	if _, err := folder.Put(t.Context(), "a/b", random(1<<19, io.EOF)); err != nil {
		t.Errorf("there is room again: %v", err)
	}
}

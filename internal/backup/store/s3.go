package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	transfertypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	// partSize of an upload whose length is not known, in bytes. S3 takes 10,000 parts of an object (user guide,
	// "Amazon S3 multipart upload limits"), each but the last of at least 5 MiB: 48.8 GiB. Whoever stores more makes
	// several objects.
	partSize = 5 << 20
	// uploadsAtOnce is how many parts are under way at once. Each is held in memory, and one more. At 100 ms a part that is
	// 150 MiB/s, more than mysqldump says compressed.
	uploadsAtOnce = 3
	// attempts of a call, and the longest pause between two: a throttled bucket gets two minutes to recover.
	attempts = 10
	maxPause = 20 * time.Second
	// silence is how long an answer may take to begin once the request is sent, before the call is tried again. Putting a
	// large object together takes some stores minutes.
	silence = 5 * time.Minute
	// abortTimeout bounds taking an upload back that is given up.
	abortTimeout = 30 * time.Second
	// deleteAtOnce is how many objects one call deletes (API reference, DeleteObjects).
	deleteAtOnce = 1000
	// resumes is how often in a row a download is taken up again that breaks without a byte more.
	resumes = 5
)

// S3Options say where a bucket is and who asks.
type S3Options struct {
	// Bucket and Prefix; the prefix has no slash at its ends and may be empty.
	Bucket, Prefix string
	Region         string
	// Endpoint of a store that is not AWS; buckets are then addressed by path.
	Endpoint string
	// CABundle holds the only authorities that may sign the endpoint's certificate, in PEM; empty for the system's.
	CABundle string
	// KMSKeyID for SSE-KMS, empty for the bucket's default.
	KMSKeyID string
	// AccessKeyID, SecretAccessKey and SessionToken; without them the SDK's default chain is used (IRSA, Pod Identity).
	AccessKeyID, SecretAccessKey, SessionToken string
	// Attempts of a call, the longest pause between two, how long an answer may take to begin, and how long it may pause, unless
	// the defaults. For tests.
	Attempts                int
	MaxPause, Silence, Idle time.Duration
	// UserAgent tells AWS who asks.
	UserAgent string
}

// S3API lists exactly the SDK's calls in use. The policy in docs/aws.md is compared with it.
type S3API interface {
	transfermanager.S3APIClient
	DeleteObjects(context.Context, *s3.DeleteObjectsInput, ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error)
	ListMultipartUploads(context.Context, *s3.ListMultipartUploadsInput, ...func(*s3.Options)) (*s3.ListMultipartUploadsOutput, error)
}

// S3 is a store in a bucket.
type S3 struct {
	api      S3API
	transfer *transfermanager.Client
	o        S3Options
	// exclusive is whether Create can be relied on.
	exclusive exclusive
}

// NewS3 returns the store in a bucket. It makes no call.
func NewS3(ctx context.Context, o S3Options) (*S3, error) {
	if o.Attempts == 0 {
		o.Attempts, o.MaxPause = attempts, maxPause
	}
	if o.Silence == 0 {
		o.Silence = silence
	}
	if o.Idle == 0 {
		o.Idle = idle
	}
	load := []func(*config.LoadOptions) error{
		config.WithRegion(o.Region),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = o.Silence })),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(r *retry.StandardOptions) {
				r.MaxAttempts, r.MaxBackoff = o.Attempts, o.MaxPause
				r.RateLimiter = unlimited{} // the SDK's own budget would end a long throttling early
			})
		}),
	}
	if o.AccessKeyID != "" {
		load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(o.AccessKeyID, o.SecretAccessKey, o.SessionToken)))
	}
	if o.CABundle != "" {
		load = append(load, config.WithCustomCABundle(strings.NewReader(o.CABundle)))
	}
	if o.UserAgent != "" {
		load = append(load, config.WithAppID(o.UserAgent))
	}
	configuration, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("set up access to S3: %w", err)
	}
	api := s3.NewFromConfig(configuration, func(so *s3.Options) {
		// What is read carries checksums of our own; that S3 has none of its own for a range of it is no news.
		so.DisableLogOutputChecksumValidationSkipped = true
		so.HTTPClient = impatient{so.HTTPClient, o.Idle}
		if o.Endpoint != "" {
			so.BaseEndpoint, so.UsePathStyle = aws.String(o.Endpoint), true
			so.RequestChecksumCalculation = o.requestChecksums()
			so.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
	return newS3(api, o), nil
}

func newS3(api S3API, o S3Options) *S3 {
	return &S3{api: api, o: o, transfer: transfermanager.New(api, func(t *transfermanager.Options) {
		t.PartSizeBytes, t.MultipartUploadThreshold, t.Concurrency, t.FailTimeout = partSize, partSize, uploadsAtOnce, abortTimeout
		t.RequestChecksumCalculation = o.requestChecksums()
	})}
}

// requestChecksums is when the SDK adds a checksum of its own to an upload. Over TLS it sends it as a trailer of an aws-chunked
// body, which many stores other than AWS reject. Backups carry their own checksums.
func (o *S3Options) requestChecksums() aws.RequestChecksumCalculation {
	if o.Endpoint != "" {
		return aws.RequestChecksumCalculationWhenRequired
	}
	return aws.RequestChecksumCalculationWhenSupported
}

// unlimited is a retry budget without an end.
type unlimited struct{}

func (unlimited) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}
func (unlimited) AddTokens(uint) error { return nil }

func (s *S3) key(key string) string {
	if s.o.Prefix == "" {
		return key
	}
	return s.o.Prefix + "/" + key
}

// URL implements Store.
func (s *S3) URL(key string) string { return "s3://" + s.o.Bucket + "/" + s.key(key) }

// Put implements Store. Up to one part it is one call; more is a multipart upload, which S3 shows only once it is
// complete, and which is taken back when it is given up.
func (s *S3) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	return s.upload(ctx, "store", key, r, nil)
}

// Create implements Store by a conditional write (user guide, "Conditional writes"): S3 decides when the upload completes. A store
// other than AWS first has to prove that it does.
func (s *S3) Create(ctx context.Context, key string, r io.Reader) error {
	if s.o.Endpoint != "" {
		if err := s.exclusive.prove(ctx, s, key); err != nil {
			return err
		}
	}
	_, err := s.upload(ctx, "create", key, r, aws.String("*"))
	return err
}

// ProveExclusive shows that the store takes objects, rejects a conditional write of one that exists, and deletes, by an empty object
// beside key that it removes. Create does the same before it relies on a store other than AWS.
func (s *S3) ProveExclusive(ctx context.Context, key string) error {
	return s.exclusive.prove(ctx, s, key)
}

// createAtOnce creates an empty object by one call.
func (s *S3) createAtOnce(ctx context.Context, key string) error {
	_, err := s.upload(ctx, "create", key, strings.NewReader(""), aws.String("*"))
	return err
}

// createInParts creates an object by a multipart upload of one byte, which the upload of a large object is as well.
func (s *S3) createInParts(ctx context.Context, key string) error {
	bucket, object := &s.o.Bucket, aws.String(s.key(key))
	begun, err := s.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: object})
	if err != nil {
		return s.explain(ctx, "create", key, err)
	}
	part, err := s.api.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: object, UploadId: begun.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("x")})
	if err == nil {
		_, err = s.api.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: bucket, Key: object, UploadId: begun.UploadId, IfNoneMatch: aws.String("*"),
			MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: part.ETag, PartNumber: aws.Int32(1)}}}})
	}
	if err != nil {
		_, aborted := s.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: bucket, Key: object, UploadId: begun.UploadId})
		if aborted = s.explain(ctx, "abort the upload of", key, aborted); aborted != nil && !errors.Is(aborted, ErrNotFound) {
			return aborted
		}
	}
	return s.explain(ctx, "create", key, err)
}

func (s *S3) upload(ctx context.Context, what, key string, r io.Reader, ifNoneMatch *string) (int64, error) {
	counted := &counter{r: ending{ctx, r}}
	input := &transfermanager.UploadObjectInput{Bucket: &s.o.Bucket, Key: aws.String(s.key(key)), Body: counted, IfNoneMatch: ifNoneMatch}
	if s.o.KMSKeyID != "" {
		input.ServerSideEncryption, input.SSEKMSKeyID = transfertypes.ServerSideEncryptionAwsKms, &s.o.KMSKeyID
	}
	if _, err := s.transfer.UploadObject(ctx, input); err != nil {
		return 0, s.explain(ctx, what, key, errors.Join(err, counted.err))
	}
	return counted.n, nil
}

// counter counts what is read, and keeps why that ended early: the SDK's own error may not say it.
type counter struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	d := &download{ctx: ctx, s: s, key: key}
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

// download reads an object, and takes it up again where the connection broke.
type download struct {
	ctx    context.Context //nolint:containedctx // a reader has nowhere else to take it from
	s      *S3
	key    string
	body   io.ReadCloser
	etag   *string
	offset int64
	failed int
}

func (d *download) open() error {
	input := &s3.GetObjectInput{Bucket: &d.s.o.Bucket, Key: aws.String(d.s.key(d.key))}
	if d.offset > 0 {
		input.Range, input.IfMatch = aws.String(fmt.Sprintf("bytes=%d-", d.offset)), d.etag
	}
	output, err := d.s.api.GetObject(d.ctx, input)
	if err != nil {
		return d.s.explain(d.ctx, "read", d.key, err)
	}
	d.body, d.etag = output.Body, output.ETag
	return nil
}

func (d *download) Read(p []byte) (int, error) {
	for {
		n, err := d.body.Read(p)
		d.offset += int64(n)
		if n > 0 {
			d.failed = 0
		}
		if err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
		if d.failed++; d.failed > resumes || d.ctx.Err() != nil {
			return 0, d.s.explain(d.ctx, "read", d.key, err)
		}
		d.body.Close()
		if err := d.open(); err != nil {
			return 0, err
		}
	}
}

func (d *download) Close() error { return d.body.Close() }

// List implements Store.
func (s *S3) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		pages := s3.NewListObjectsV2Paginator(s.api, &s3.ListObjectsV2Input{Bucket: &s.o.Bucket, Prefix: aws.String(s.key(prefix))})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(Object{}, s.explain(ctx, "list", prefix, err))
				return
			}
			for _, o := range page.Contents {
				key := aws.ToString(o.Key)
				if s.o.Prefix != "" {
					key = strings.TrimPrefix(key, s.o.Prefix+"/")
				}
				if !yield(Object{Key: key, Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)}, nil) {
					return
				}
			}
		}
	}
}

// Delete implements Store.
func (s *S3) Delete(ctx context.Context, keys ...string) error {
	for len(keys) > 0 {
		n := min(len(keys), deleteAtOnce)
		ids := make([]types.ObjectIdentifier, n)
		for i, key := range keys[:n] {
			ids[i].Key = aws.String(s.key(key))
		}
		output, err := s.api.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &s.o.Bucket, Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(true)}})
		if err != nil {
			return s.explain(ctx, "delete", keys[0], err)
		}
		for _, e := range output.Errors {
			if code := aws.ToString(e.Code); code != "NoSuchKey" {
				return fmt.Errorf("delete %s: %w: %s", s.URL(strings.TrimPrefix(aws.ToString(e.Key), s.o.Prefix+"/")), classOf(code), code)
			}
		}
		keys = keys[n:]
	}
	return nil
}

// Sweep implements Store.
func (s *S3) Sweep(ctx context.Context, prefix string) (int, error) {
	swept := 0
	pages := s3.NewListMultipartUploadsPaginator(s.api, &s3.ListMultipartUploadsInput{Bucket: &s.o.Bucket, Prefix: aws.String(s.key(prefix))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return swept, s.explain(ctx, "list the uploads of", prefix, err)
		}
		for _, u := range page.Uploads {
			_, err := s.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.o.Bucket, Key: u.Key, UploadId: u.UploadId})
			if err = s.explain(ctx, "abort the upload of", prefix, err); err != nil && !errors.Is(err, ErrNotFound) {
				return swept, err
			}
			swept++
		}
	}
	return swept, nil
}

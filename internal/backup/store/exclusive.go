package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// exclusive remembers whether a store has proven that it rejects a conditional write of an object that exists.
type exclusive struct {
	mu     sync.Mutex
	proven bool
}

// proveExclusive fails with ErrOverwrites where a store other than AWS ignores If-None-Match, as several do: Create would then replace
// what another writer stored. It tries once, beside the object that is to be created, in one call and in parts.
func (s *S3) proveExclusive(ctx context.Context, key string) error {
	if s.o.Endpoint == "" {
		return nil
	}
	s.exclusive.mu.Lock()
	defer s.exclusive.mu.Unlock()
	if s.exclusive.proven {
		return nil
	}
	probe := key + ".probe-" + rand.Text()
	if _, err := s.Put(ctx, probe, bytes.NewReader(nil)); err != nil {
		return err
	}
	_, one := s.upload(ctx, "create", probe, bytes.NewReader(nil), aws.String("*"))
	err := errors.Join(s.mustExist(probe, one), s.mustExist(probe, s.createInParts(ctx, probe)))
	// Where nothing may be deleted, as under a retention lock, the empty object stays.
	if deletion := s.Delete(ctx, probe); err == nil && deletion != nil && !errors.Is(deletion, ErrDenied) {
		err = deletion
	}
	s.exclusive.proven = err == nil
	return err
}

// mustExist turns the answer to a Create of an object that exists into what is wrong with the store.
func (s *S3) mustExist(key string, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("create %s twice: %w", s.URL(key), ErrOverwrites)
	case errors.Is(err, ErrExists):
		return nil
	}
	return err
}

// createInParts creates an object by a multipart upload of one byte, which the upload of a large object is as well.
func (s *S3) createInParts(ctx context.Context, key string) error {
	bucket, object := &s.o.Bucket, aws.String(s.key(key))
	begun, err := s.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: object})
	if err != nil {
		return s.explain(ctx, "create", key, err)
	}
	part, err := s.api.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: object, UploadId: begun.UploadId, PartNumber: aws.Int32(1), Body: bytes.NewReader([]byte{0})})
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

package store

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	policies "github.com/alx-ke/nairobi-mysql-operator/config/aws"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// actionOf is the IAM action that each call needs (Service Authorization Reference, "Actions, resources, and condition keys
// for Amazon S3").
var actionOf = map[string]string{
	"PutObject": "s3:PutObject", "CreateMultipartUpload": "s3:PutObject", "UploadPart": "s3:PutObject", "CompleteMultipartUpload": "s3:PutObject",
	"AbortMultipartUpload": "s3:AbortMultipartUpload", "GetObject": "s3:GetObject", "HeadObject": "s3:GetObject",
	"DeleteObjects": "s3:DeleteObject", "ListObjectsV2": "s3:ListBucket", "ListMultipartUploads": "s3:ListBucketMultipartUploads",
	// Of the transfer manager, for whole buckets and directories; nothing here comes by it.
	"HeadBucket": "",
}

// needless are actions that S3 asks for on the caller's behalf.
var needless = []string{"kms:GenerateDataKey", "kms:Decrypt"}

// TestPolicyAllowsWhatThePodsCall compares the published policy for the pods with the calls in use.
func TestPolicyAllowsWhatThePodsCall(t *testing.T) {
	text, err := policies.Policies.ReadFile("backup.json")
	must(t, err)
	policy, err := iam.Read(text)
	must(t, err)
	var allowed []string
	for _, s := range policy.Statement {
		allowed = append(allowed, s.Action...)
		for _, r := range s.Resource {
			if r == "*" || s.Effect != "Allow" {
				t.Errorf("%s is too wide: %s on %s", s.Sid, s.Effect, r)
			}
		}
	}
	called := map[string]bool{}
	api := reflect.TypeFor[S3API]()
	for i := range api.NumMethod() {
		name := api.Method(i).Name
		action, known := actionOf[name]
		if !known {
			t.Errorf("nobody said which action %s needs", name)
		}
		if action != "" {
			called[action] = true
		}
		if action != "" && !slices.Contains(allowed, action) {
			t.Errorf("the pods call %s, and %s is not in the policy", name, action)
		}
	}
	for _, action := range allowed {
		if !called[action] && !slices.Contains(needless, action) {
			t.Errorf("the policy allows %s, which nobody calls", action)
		}
	}
}

const podsPrefix = "team/mysql"

// newWorldFor is newWorld in which a policy limits the pods, as AWS does.
func newWorldFor(t *testing.T, policy func(t *testing.T, bucket string) iam.Principal) *world {
	t.Helper()
	w := newWorld(t)
	p, err := proxy.Start(t.Context(), proxy.Options{Upstream: w.endpoint, Principals: map[string]iam.Principal{iam.BackupKeyID: policy(t, w.bucket)}})
	must(t, err)
	t.Cleanup(func() { must(t, p.Stop()) })
	w.endpoint = p.Endpoint()
	return w
}

// pods are limited by the published policy.
func pods(t *testing.T, bucket string) iam.Principal {
	t.Helper()
	p, err := proxy.BackupPods(bucket, podsPrefix)
	must(t, err)
	return p
}

// podsWithout are pods whose policy lacks an action.
func podsWithout(action string) func(t *testing.T, bucket string) iam.Principal {
	return func(t *testing.T, bucket string) iam.Principal {
		t.Helper()
		text, err := policies.Policies.ReadFile("backup.json")
		must(t, err)
		d, err := iam.Read([]byte(strings.NewReplacer("BUCKET", bucket, "PREFIX", podsPrefix).Replace(string(text))))
		must(t, err)
		for i := range d.Statement {
			d.Statement[i].Action = slices.DeleteFunc(d.Statement[i].Action, func(a string) bool { return a == action })
		}
		d.Statement = slices.DeleteFunc(d.Statement, func(s iam.Statement) bool { return len(s.Action) == 0 })
		policy, err := d.Policy()
		must(t, err)
		return iam.Principal{Policy: policy}
	}
}

// as is the store of somebody else than a test's administrator.
func (w *world) as(key, prefix string) *S3 {
	w.t.Helper()
	s, err := NewS3(w.t.Context(), S3Options{Bucket: w.bucket, Prefix: prefix, Region: "us-east-1", Endpoint: w.endpoint, AccessKeyID: key, SecretAccessKey: "lab", Attempts: 1})
	must(w.t, err)
	return s
}

// work is all that the pods do in a bucket.
func (w *world) work(ctx context.Context) error {
	s, administrator := w.as(iam.BackupKeyID, podsPrefix), w.as(iam.AdministratorKeyID, "")
	left := podsPrefix + "/shop/left"
	if _, err := administrator.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &w.bucket, Key: aws.String(left)}); err != nil {
		return err
	}
	_, put := s.Put(ctx, "shop/one", bytes.NewReader(make([]byte, partSize+1)))
	created := s.Create(ctx, "shop/two", strings.NewReader("x"))
	if err := errors.Join(put, created); err != nil {
		return err
	}
	if _, err := ReadAll(ctx, s, "shop/two", 10); err != nil {
		return err
	}
	n := 0
	for _, err := range s.List(ctx, "shop/") {
		if n++; err != nil {
			return err
		}
	}
	if _, err := s.Sweep(ctx, "shop/"); err != nil {
		return err
	}
	if n < 2 {
		return errors.New("the list lacks an object")
	}
	return s.Delete(ctx, "shop/one", "shop/two")
}

// The published policy allows all that the pods do, nothing of it is there for nothing, and it reaches no further than its prefix.
func TestPodsWorkUnderTheirPolicy(t *testing.T) {
	must(t, newWorldFor(t, pods).work(t.Context()))
	text, err := policies.Policies.ReadFile("backup.json")
	must(t, err)
	d, err := iam.Read(text)
	must(t, err)
	for _, s := range d.Statement {
		for _, action := range s.Action {
			if slices.Contains(needless, action) {
				continue
			}
			if err := newWorldFor(t, podsWithout(action)).work(t.Context()); !errors.Is(err, ErrDenied) {
				t.Errorf("without %s: %v, want %v", action, err, ErrDenied)
			}
		}
	}
	w := newWorldFor(t, pods)
	for _, others := range []*S3{w.as(iam.BackupKeyID, "team/postgres"), w.as(iam.BackupKeyID, "")} {
		if _, err := others.Put(t.Context(), "shop/one", strings.NewReader("x")); !errors.Is(err, ErrDenied) {
			t.Errorf("under another prefix: %v, want %v", err, ErrDenied)
		}
	}
}

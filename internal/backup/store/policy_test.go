package store

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
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

// TestPolicyAllowsWhatThePodsCall compares the policy for the pods in docs/aws.md with the calls in use.
func TestPolicyAllowsWhatThePodsCall(t *testing.T) {
	text, err := os.ReadFile("../../../docs/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## The policy of the backup pods\n")
	_, block, fenced := strings.Cut(section, "```json\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !fenced || !closed {
		t.Fatal("docs/aws.md has no policy of the backup pods")
	}
	var policy struct {
		Version   string
		Statement []struct {
			Sid, Effect string
			Action      []string
			Resource    []string
			Condition   map[string]any
		}
	}
	decoder := json.NewDecoder(strings.NewReader(block))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&policy); err != nil {
		t.Fatal(err)
	}
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

package iam

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
)

// sts asks about AssumeRole, and about TagSession where tags go along. The role's own policy has its say as well; the lab has none.
// GetCallerIdentity and what a token of Kubernetes signs are answered to everybody.
func (c Call) sts(by Principal) []Request {
	if c.Action != "AssumeRole" {
		return nil
	}
	role, keys := c.Form.Get("RoleArn"), c.keys()
	if id := c.Form.Get("ExternalId"); id != "" {
		keys = keys.with(keyExternalID, id)
	}
	requests := []Request{{Action: "sts:AssumeRole", Resource: role, Keys: keys}}
	if len(by.Tags) > 0 || c.Form.Has("Tags.member.1.Key") {
		requests = append(requests, Request{Action: "sts:TagSession", Resource: role, Keys: c.keys()})
	}
	return requests
}

// ssm asks about a parameter. The public ones, under /aws/, have no account in their ARN.
func (c Call) ssm() ([]Request, error) {
	if c.Action != "GetParameter" {
		return []Request{{Action: "ssm:" + c.Action, Resource: everything, Keys: c.keys()}}, nil
	}
	var in struct{ Name string }
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return nil, fmt.Errorf("read ssm:GetParameter: %w", err)
	}
	resource := c.arn("ssm", "parameter/"+strings.TrimPrefix(in.Name, "/"))
	if strings.HasPrefix(in.Name, "/aws/") {
		resource = fmt.Sprintf("arn:aws:ssm:%s::parameter%s", c.Region, in.Name)
	}
	return []Request{{Action: "ssm:GetParameter", Resource: resource, Keys: c.keys()}}, nil
}

// kms asks about a key that the caller itself calls KMS for: then nothing is done via a service.
func (c Call) kms() ([]Request, error) {
	var in struct{ KeyId string } //nolint:revive // The name is KMS's.
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return nil, fmt.Errorf("read kms:%s: %w", c.Action, err)
	}
	key := in.KeyId
	switch {
	case key == "":
		key = c.arn("kms", "key/*")
	case !strings.HasPrefix(key, "arn:"):
		key = c.arn("kms", "key/"+key)
	}
	return []Request{{Action: "kms:" + c.Action, Resource: key, Keys: c.keys()}}, nil
}

// s3 asks about a bucket or the objects in it. The path names both.
func (c Call) s3() ([]Request, error) {
	bucket, object, _ := strings.Cut(strings.TrimPrefix(c.Path, "/"), "/")
	bucket = "arn:aws:s3:::" + bucket
	switch {
	case c.Method == http.MethodPost && c.Query.Has("delete"):
		return c.deleteObjects(bucket)
	case object != "":
		return []Request{{Action: c.objectAction(), Resource: bucket + "/" + object, Keys: c.keys()}}, nil
	}
	keys, action := c.keys(), "s3:ListBucket"
	switch {
	case c.Query.Has("uploads"):
		action = "s3:ListBucketMultipartUploads"
	case c.Method == http.MethodPut:
		action = "s3:CreateBucket"
	case c.Method == http.MethodDelete:
		action = "s3:DeleteBucket"
	case c.Query.Has("prefix"):
		keys = keys.with(keyPrefix, c.Query.Get("prefix"))
	}
	return []Request{{Action: action, Resource: bucket, Keys: keys}}, nil
}

func (c Call) objectAction() string {
	upload := c.Query.Has("uploadId")
	switch {
	case c.Method == http.MethodDelete && upload:
		return "s3:AbortMultipartUpload"
	case c.Method == http.MethodDelete:
		return "s3:DeleteObject"
	case c.Method == http.MethodGet && upload:
		return "s3:ListMultipartUploadParts"
	case c.Method == http.MethodGet, c.Method == http.MethodHead:
		return "s3:GetObject"
	}
	return "s3:PutObject"
}

// deleteObjects asks about every object of a call that deletes many.
func (c Call) deleteObjects(bucket string) ([]Request, error) {
	var in struct {
		Keys []string `xml:"Object>Key"`
	}
	if err := xml.Unmarshal(c.Body, &in); err != nil {
		return nil, fmt.Errorf("read s3:DeleteObjects: %w", err)
	}
	var out []Request
	for _, key := range in.Keys {
		out = append(out, Request{Action: "s3:DeleteObject", Resource: bucket + "/" + key, Keys: c.keys()})
	}
	return out, nil
}

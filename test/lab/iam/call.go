package iam

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Call is one call of an AWS API.
type Call struct {
	Service, Action, Region string
	// Form holds the parameters of a call of the Query protocol (EC2, STS).
	Form url.Values
	// Body is that of a call of the JSON protocol (SSM, KMS), and of an S3 call that lists objects in it.
	Body []byte
	// Method, Path and Query are those of an S3 call.
	Method, Path string
	Query        url.Values
}

// Account looks up what an account holds.
type Account interface {
	// Tags returns the tags of resources by their ids. One that does not exist has none, as in AWS: a policy that asks for a tag
	// denies a call on it.
	Tags(ids []string) (map[string]map[string]string, error)
	// Role returns the ARN of the role of an instance profile, which is given by its name or ARN; empty for an unknown profile.
	Role(profile string) (string, error)
}

// Requests lists what IAM is asked about a call. It is empty for calls that AWS answers to everybody.
func (c Call) Requests(account Account, by Principal) ([]Request, error) {
	switch c.Service {
	case "ec2":
		return c.ec2(account)
	case "sts":
		return c.sts(by), nil
	case "ssm":
		return c.ssm()
	case "kms":
		return c.kms()
	case "s3":
		return c.s3()
	}
	return []Request{{Action: c.Service + ":" + c.Action, Resource: everything}}, nil
}

// others are the actions besides EC2's whose resources and keys are known.
var others = map[string]bool{
	"ssm:GetParameter": true, "sts:AssumeRole": true, "sts:TagSession": true, "iam:PassRole": true,
	"kms:DescribeKey": true, "kms:GenerateDataKey": true, "kms:GenerateDataKeyWithoutPlaintext": true, "kms:Decrypt": true,
	"kms:ReEncryptFrom": true, "kms:ReEncryptTo": true, "kms:CreateGrant": true,
	"s3:PutObject": true, "s3:GetObject": true, "s3:DeleteObject": true, "s3:AbortMultipartUpload": true, "s3:ListBucket": true,
	"s3:ListBucketMultipartUploads": true, "s3:ListMultipartUploadParts": true,
	"servicequotas:ListServiceQuotas": true,
}

var services = map[string]bool{"ec2": true, "sts": true, "ssm": true, "kms": true, "s3": true, "iam": true, "servicequotas": true}

// knownAction says whether this package knows what an action of a policy touches.
func knownAction(pattern string) bool {
	service, name, _ := strings.Cut(pattern, ":")
	switch {
	case pattern == everything:
		return true
	case strings.ContainsAny(name, "*?"):
		return services[service]
	case service == "ec2":
		return ec2Calls[name] != nil || readsEC2(name)
	}
	return others[pattern]
}

// arn names a resource of an account in a region.
func (c Call) arn(service, resource string) string {
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, c.Region, AccountID, resource)
}

// keys are those of every call.
func (c Call) keys() Keys { return Keys{keyRequestedRegion: {c.Region}} }

// with returns the keys and one more.
func (k Keys) with(name string, values ...string) Keys {
	out := Keys{name: values}
	for have, v := range k {
		if have != name {
			out[have] = v
		}
	}
	return out
}

// withTags returns the keys and those of tags under a prefix.
func (k Keys) withTags(tags map[string]string, prefixes ...string) Keys {
	for key, value := range tags {
		for _, prefix := range prefixes {
			k = k.with(prefix+key, value)
		}
	}
	return k
}

// withRequestTags returns the keys and those of the tags that a call sets.
func (k Keys) withRequestTags(tags map[string]string) Keys {
	if len(tags) == 0 {
		return k
	}
	names := make([]string, 0, len(tags))
	for key := range tags {
		names = append(names, key)
	}
	return k.withTags(tags, requestTag).with(keyTagKeys, names...)
}

// ReadsBody says whether Requests looks at the body of a call that is not of the Query protocol.
func ReadsBody(service string, r *http.Request) bool {
	return service == "ssm" || service == "kms" || service == "s3" && r.Method == http.MethodPost && r.URL.Query().Has("delete")
}

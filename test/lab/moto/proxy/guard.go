package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/config/aws"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
)

const (
	serviceS3  = "s3"
	serviceSTS = "sts"
	versionIAM = "2010-05-08"
)

// guard knows who the callers are.
type guard struct {
	operator   iam.Principal
	principals map[string]iam.Principal
}

// BackupPods are the pods of backups under their published policy, for a bucket and a prefix.
func BackupPods(bucket, prefix string) (iam.Principal, error) {
	document, err := aws.Policies.ReadFile("backup.json")
	if err != nil {
		return iam.Principal{}, err
	}
	policy, err := iam.Parse([]byte(strings.NewReplacer("BUCKET", bucket, "PREFIX", prefix).Replace(string(document))))
	if err != nil {
		return iam.Principal{}, fmt.Errorf("the policy of the backup pods: %w", err)
	}
	return iam.Principal{ARN: "arn:aws:iam::" + iam.AccountID + ":user/nairobi-mysql-backup", Policy: policy}, nil
}

func newGuard(principals map[string]iam.Principal, besides []iam.Statement) (guard, error) {
	text, err := aws.Policies.ReadFile("operator.json")
	if err != nil {
		return guard{}, err
	}
	document, err := iam.Read(text)
	if err != nil {
		return guard{}, fmt.Errorf("the operator's policy: %w", err)
	}
	document.Statement = append(document.Statement, besides...)
	policy, err := document.Policy()
	if err != nil {
		return guard{}, fmt.Errorf("the operator's policy: %w", err)
	}
	all := map[string]iam.Principal{iam.AdministratorKeyID: {}}
	maps.Copy(all, principals)
	return guard{operator: iam.Principal{ARN: "arn:aws:iam::" + iam.AccountID + ":user/nairobi-mysql-operator", Policy: policy}, principals: all}, nil
}

// caller returns who signed a call, by the access key in the signature. Nobody signs a call with a token of Kubernetes.
func (g guard) caller(authorization string) iam.Principal {
	_, credential, signed := strings.Cut(authorization, "Credential=")
	if !signed {
		return iam.Principal{}
	}
	key, _, _ := strings.Cut(credential, "/")
	if principal, ok := g.principals[key]; ok {
		return principal
	}
	return g.operator
}

// refusal returns what the caller's policy does not allow, nil for nothing.
func (p *Proxy) refusal(r *http.Request, c *call) (*iam.Refusal, error) {
	caller := p.guard.caller(c.header.Get("Authorization"))
	if caller.Policy == nil {
		return nil, nil
	}
	body := c.body
	if c.form == nil && iam.ReadsBody(c.service, r) {
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, bodyLimit)); err != nil {
			return nil, fmt.Errorf("read the call: %w", err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	requests, err := iam.Call{
		Service: c.service, Action: c.action, Region: region(c.header.Get("Authorization")), Form: c.form, Body: body,
		Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(),
	}.Requests(account{p: p, ctx: r.Context(), call: c}, caller)
	if err != nil {
		return nil, err
	}
	return caller.Judge(requests), nil
}

// region is the one in a signature's credential scope.
func region(authorization string) string {
	_, credential, _ := strings.Cut(authorization, "Credential=")
	if parts := strings.Split(credential, "/"); len(parts) > 2 {
		return parts[2]
	}
	return ""
}

// denial is a refusal in the words of the service that was called.
func denial(service string, refusal *iam.Refusal) Rule {
	r := Rule{Code: "AccessDenied", Message: refusal.Reason(), Status: http.StatusForbidden}
	switch service {
	case serviceEC2:
		r.Code = "UnauthorizedOperation"
		r.Message = "You are not authorized to perform this operation. " + r.Message + ". " + encodedMessage
	case serviceSTS, serviceS3:
	default:
		r.Code, r.Status = "AccessDeniedException", http.StatusBadRequest
	}
	return r
}

// account looks up what a caller's account holds.
type account struct {
	p    *Proxy
	ctx  context.Context //nolint:containedctx // It lives as long as the call that it is about.
	call *call
}

// Tags implements iam.Account. What the proxy hides has none.
func (a account) Tags(ids []string) (map[string]map[string]string, error) {
	form := url.Values{"Action": {"DescribeTags"}, "Version": {versionEC2}, "Filter.1.Name": {"resource-id"}}
	for i, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		form.Set(fmt.Sprintf("Filter.1.Value.%d", i+1), id)
	}
	var found struct {
		Tags []struct {
			ID    string `xml:"resourceId"`
			Key   string `xml:"key"`
			Value string `xml:"value"`
		} `xml:"tagSet>item"`
	}
	if err := a.p.ask(a.ctx, a.call, form, &found); err != nil {
		return nil, err
	}
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	out := map[string]map[string]string{}
	for _, t := range found.Tags {
		if a.p.isHidden(t.ID) {
			continue
		}
		if out[t.ID] == nil {
			out[t.ID] = map[string]string{}
		}
		out[t.ID][t.Key] = t.Value
	}
	return out, nil
}

// Role implements iam.Account.
func (a account) Role(profile string) (string, error) {
	name := profile[strings.LastIndex(profile, "/")+1:]
	var found struct {
		Roles []string `xml:"GetInstanceProfileResult>InstanceProfile>Roles>member>Arn"`
	}
	iamCall := *a.call
	iamCall.header = a.call.header.Clone()
	iamCall.header.Set("Authorization", strings.Replace(iamCall.header.Get("Authorization"), "/"+serviceEC2+"/", "/iam/", 1))
	err := a.p.ask(a.ctx, &iamCall, url.Values{"Action": {"GetInstanceProfile"}, "Version": {versionIAM}, "InstanceProfileName": {name}}, &found)
	if err != nil || len(found.Roles) == 0 {
		return "", nil //nolint:nilerr // EC2 refuses a profile that does not exist.
	}
	return found.Roles[0], nil
}

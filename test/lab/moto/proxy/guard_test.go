package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

const clusterTag = "mysql.alx.ke/cluster-uid"

// as is the configuration of a caller with an access key.
func as(p *proxy.Proxy, key string) aws.Config {
	config := moto.Config(p.Endpoint())
	config.Credentials = credentials.NewStaticCredentialsProvider(key, moto.SecretAccessKey, "")
	return config
}

// newVolume is what creates a volume with tags.
func newVolume(tags ...types.Tag) *ec2.CreateVolumeInput {
	in := &ec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(1)}
	if len(tags) > 0 {
		in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeVolume, Tags: tags}}
	}
	return in
}

func dry(in *ec2.CreateVolumeInput) *ec2.CreateVolumeInput {
	in.DryRun = aws.Bool(true)
	return in
}

// Whoever is not known is the operator, and a dry run is denied as a call is. An administrator is not limited.
func TestGuardKnowsTheCaller(t *testing.T) {
	p, administrator := start(t)
	tag := types.Tag{Key: aws.String(clusterTag), Value: aws.String("uid")}
	for _, key := range []string{moto.AccessKeyID, "lab"} {
		operator := ec2.NewFromConfig(as(p, key))
		_, err := operator.CreateVolume(t.Context(), newVolume())
		wantCode(t, err, "UnauthorizedOperation")
		_, err = operator.CreateVolume(t.Context(), dry(newVolume()))
		wantCode(t, err, "UnauthorizedOperation")
		_, err = operator.CreateVolume(t.Context(), dry(newVolume(tag)))
		wantCode(t, err, "DryRunOperation")
	}
	_, err := administrator.CreateVolume(t.Context(), newVolume())
	wantCode(t, err, "")
	if p.Counts()["DescribeTags"] != 0 {
		t.Error("the proxy's own calls are in the log")
	}
}

// Who may not launch hears that, and not that there is no room.
func TestDenialOutranksCapacity(t *testing.T) {
	p, administrator := start(t)
	add(t, p, proxy.Rule{Kind: proxy.NoCapacity})
	untagged := launch("us-east-1a", "m6i.large", "")
	_, err := ec2.NewFromConfig(as(p, moto.AccessKeyID)).RunInstances(t.Context(), untagged)
	wantCode(t, err, "UnauthorizedOperation")
	_, err = administrator.RunInstances(t.Context(), untagged)
	wantCode(t, err, "InsufficientInstanceCapacity")
}

// A tag that is taken away, or that the proxy still hides, counts at once.
func TestGuardGoesByTheTagsThatAre(t *testing.T) {
	p, administrator := start(t)
	operator := ec2.NewFromConfig(as(p, moto.AccessKeyID))
	made, err := operator.CreateVolume(t.Context(), newVolume(types.Tag{Key: aws.String(clusterTag), Value: aws.String("uid")}))
	if err != nil {
		t.Fatal(err)
	}
	remove := func(want string) {
		t.Helper()
		_, err := operator.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: made.VolumeId, DryRun: aws.Bool(true)})
		wantCode(t, err, want)
	}
	for { // until it is there
		found, err := administrator.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{*made.VolumeId}})
		if err != nil {
			t.Fatal(err)
		}
		if found.Volumes[0].State == types.VolumeStateAvailable {
			break
		}
	}
	remove("DryRunOperation")
	if _, err := administrator.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{*made.VolumeId}, Tags: []types.Tag{{Key: aws.String(clusterTag)}}}); err != nil {
		t.Fatal(err)
	}
	remove("UnauthorizedOperation")
	if _, err := administrator.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{*made.VolumeId}, Tags: []types.Tag{{Key: aws.String(clusterTag), Value: aws.String("x")}}}); err != nil {
		t.Fatal(err)
	}
	remove("DryRunOperation")
	if _, err := administrator.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: made.VolumeId}); err != nil {
		t.Fatal(err)
	}
	remove("UnauthorizedOperation")
}

// Each service denies in its own words, of which the operator reads the action.
func TestDenialsAreInTheServicesWords(t *testing.T) {
	p, _ := start(t)
	config := as(p, moto.AccessKeyID)
	const user = "User: arn:aws:iam::123456789012:user/nairobi-mysql-operator is not authorized to perform: "
	for what, row := range map[string]struct {
		call    func(context.Context) error
		status  int
		code    string
		message string
	}{
		"EC2": {func(ctx context.Context) error {
			_, err := ec2.NewFromConfig(config).DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: aws.String("vol-0123456789abcdef0")})
			return err
		}, http.StatusForbidden, "UnauthorizedOperation", "You are not authorized to perform this operation. " + user +
			"ec2:DeleteVolume on resource: arn:aws:ec2:us-east-1:123456789012:volume/vol-0123456789abcdef0 because no identity-based policy allows the ec2:DeleteVolume action. Encoded authorization failure message: "},
		"a list": {func(ctx context.Context) error {
			_, err := ec2.NewFromConfig(config).DescribeVpcs(ctx, nil)
			return err
		},
			http.StatusForbidden, "UnauthorizedOperation", "You are not authorized to perform this operation. " + user + "ec2:DescribeVpcs because no identity-based policy allows the ec2:DescribeVpcs action. "},
		"STS": {func(ctx context.Context) error {
			_, err := sts.NewFromConfig(config).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::123456789012:role/admin"), RoleSessionName: aws.String("x")})
			return err
		}, http.StatusForbidden, "AccessDenied", user + "sts:AssumeRole on resource: arn:aws:iam::123456789012:role/admin because"},
		"Systems Manager": {func(ctx context.Context) error {
			_, err := ssm.NewFromConfig(config).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/shop/password")})
			return err
		}, http.StatusBadRequest, "AccessDeniedException", user + "ssm:GetParameter on resource: arn:aws:ssm:us-east-1:123456789012:parameter/shop/password because"},
		"S3": {func(ctx context.Context) error {
			_, err := s3.NewFromConfig(config, func(o *s3.Options) { o.UsePathStyle = true }).PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), Body: strings.NewReader("x")})
			return err
		}, http.StatusForbidden, "AccessDenied", user + "s3:PutObject on resource: arn:aws:s3:::b/k because"},
	} {
		err := row.call(t.Context())
		var api smithy.APIError
		var response *awshttp.ResponseError
		if !errors.As(err, &api) || !errors.As(err, &response) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if response.HTTPStatusCode() != row.status || api.ErrorCode() != row.code || !strings.HasPrefix(api.ErrorMessage(), row.message) {
			t.Errorf("%s: %d %s %q, want %d %s %q", what, response.HTTPStatusCode(), api.ErrorCode(), api.ErrorMessage(), row.status, row.code, row.message)
		}
	}
	if _, err := sts.NewFromConfig(config).GetCallerIdentity(t.Context(), nil); err != nil {
		t.Errorf("what AWS answers to everybody: %v", err)
	}
}

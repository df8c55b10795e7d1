package moto

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
)

const (
	// Region in which the lab lives.
	Region = "us-east-1"
	// AccessKeyID and SecretAccessKey are accepted, as is every other key. The proxy takes the owner of the key for the operator.
	AccessKeyID     = "AKIANAIROBILAB000000"
	SecretAccessKey = "lab"
	// VPCCIDR is the seeded network.
	VPCCIDR = "10.77.0.0/16"
	// LabParameter is the public SSM parameter that names the lab's image.
	LabParameter = "/aws/service/nairobi-lab/latest/amd64"

	// amazonParameter is the public SSM parameter that names Amazon Linux 2023.
	amazonParameter = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"

	seedName = "nairobi-lab"
	bareName = seedName + "-bare"
)

// Zones lists the seeded zones with their subnets' CIDRs.
var Zones = []struct{ Name, CIDR string }{
	{"us-east-1a", "10.77.1.0/24"},
	{"us-east-1b", "10.77.2.0/24"},
	{"us-east-1c", "10.77.3.0/24"},
}

// debianParameters are the SSM names under which Debian publishes its images,
// by architecture as EC2 calls it.
var debianParameters = map[types.ArchitectureValues][]string{
	types.ArchitectureValuesX8664: {
		"/aws/service/debian/release/12/latest/amd64", "/aws/service/debian/release/13/latest/amd64",
	},
	types.ArchitectureValuesArm64: {
		"/aws/service/debian/release/12/latest/arm64", "/aws/service/debian/release/13/latest/arm64",
	},
}

// Seeded is what a fresh account of the lab holds.
type Seeded struct {
	VPC string
	// Subnets by zone.
	Subnets map[string]string
	// Image is the x86_64 AMI that stands for the instance root file system,
	// SSMParameter the public parameter that resolves to it.
	Image        string
	SSMParameter string
	// BareImage is the same without MySQL. Amazon Linux' parameter resolves to it.
	BareImage string
}

// SubnetIDs lists the subnets in the order of Zones.
func (s Seeded) SubnetIDs() []string {
	var ids []string
	for _, z := range Zones {
		ids = append(ids, s.Subnets[z.Name])
	}
	return ids
}

// Config is an SDK configuration for this server.
func (s *Server) Config() aws.Config { return Config(s.endpoint) }

// Config is an SDK configuration for an endpoint of the lab, with the key of
// an administrator, whom no IAM policy limits. The SDK makes one attempt a call, so that tests see every answer.
func Config(endpoint string) aws.Config {
	return aws.Config{
		Region:           Region,
		BaseEndpoint:     aws.String(endpoint),
		Credentials:      credentials.NewStaticCredentialsProvider(iam.AdministratorKeyID, SecretAccessKey, ""),
		RetryMaxAttempts: 1,
		HTTPClient:       sender,
	}
}

// Seed makes the network, the lab's image and the public parameters, or finds
// them when an earlier call made them.
func (s *Server) Seed(ctx context.Context) (Seeded, error) {
	client := ec2.NewFromConfig(s.Config())
	seeded := Seeded{Subnets: map[string]string{}, SSMParameter: LabParameter}
	found, err := client.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{
		Filters: []types.Filter{{Name: aws.String("tag:Name"), Values: []string{seedName}}},
	})
	if err != nil {
		return Seeded{}, fmt.Errorf("look for the lab's VPC: %w", err)
	}
	if len(found.Vpcs) > 0 {
		return s.seeded(ctx, client, aws.ToString(found.Vpcs[0].VpcId))
	}
	if seeded.VPC, err = makeNetwork(ctx, client, seeded.Subnets); err != nil {
		return Seeded{}, err
	}
	parameters := map[string]string{}
	if seeded.Image, err = makeImage(ctx, client, seedName, types.ArchitectureValuesX8664); err != nil {
		return Seeded{}, err
	}
	if seeded.BareImage, err = makeImage(ctx, client, bareName, types.ArchitectureValuesX8664); err != nil {
		return Seeded{}, err
	}
	parameters[LabParameter], parameters[amazonParameter] = seeded.Image, seeded.BareImage
	for arch, names := range debianParameters {
		id, err := makeImage(ctx, client, "debian-"+string(arch), arch)
		if err != nil {
			return Seeded{}, err
		}
		for _, n := range names {
			parameters[n] = id
		}
	}
	return seeded, s.setParameters(ctx, Region, parameters)
}

// seeded reads what an earlier Seed made.
func (s *Server) seeded(ctx context.Context, client *ec2.Client, vpc string) (Seeded, error) {
	seeded := Seeded{VPC: vpc, Subnets: map[string]string{}, SSMParameter: LabParameter}
	subnets, err := client.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
		Filters: []types.Filter{{Name: aws.String("vpc-id"), Values: []string{vpc}}},
	})
	if err != nil {
		return Seeded{}, fmt.Errorf("read the lab's subnets: %w", err)
	}
	for _, n := range subnets.Subnets {
		seeded.Subnets[aws.ToString(n.AvailabilityZone)] = aws.ToString(n.SubnetId)
	}
	images, err := client.DescribeImages(ctx, &ec2.DescribeImagesInput{
		Filters: []types.Filter{{Name: aws.String("name"), Values: []string{seedName, bareName}}},
	})
	if err != nil {
		return Seeded{}, fmt.Errorf("read the lab's images: %w", err)
	}
	ids := map[string]string{}
	for _, i := range images.Images {
		ids[aws.ToString(i.Name)] = aws.ToString(i.ImageId)
	}
	seeded.Image, seeded.BareImage = ids[seedName], ids[bareName]
	if seeded.Image == "" || seeded.BareImage == "" {
		return Seeded{}, fmt.Errorf("the lab's images are gone")
	}
	return seeded, nil
}

func makeNetwork(ctx context.Context, client *ec2.Client, subnets map[string]string) (vpc string, err error) {
	v, err := client.CreateVpc(ctx, &ec2.CreateVpcInput{
		CidrBlock:         aws.String(VPCCIDR),
		TagSpecifications: named(types.ResourceTypeVpc, seedName),
	})
	if err != nil {
		return "", fmt.Errorf("make the lab's VPC: %w", err)
	}
	for _, z := range Zones {
		n, err := client.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: v.Vpc.VpcId, CidrBlock: aws.String(z.CIDR), AvailabilityZone: aws.String(z.Name),
			TagSpecifications: named(types.ResourceTypeSubnet, seedName+"-"+z.Name),
		})
		if err != nil {
			return "", fmt.Errorf("make the lab's subnet in %s: %w", z.Name, err)
		}
		subnets[z.Name] = aws.ToString(n.Subnet.SubnetId)
	}
	return aws.ToString(v.Vpc.VpcId), nil
}

func makeImage(ctx context.Context, c *ec2.Client, name string, arch types.ArchitectureValues) (string, error) {
	image, err := c.RegisterImage(ctx, &ec2.RegisterImageInput{
		Name: aws.String(name), Architecture: arch, RootDeviceName: aws.String("/dev/xvda"),
		VirtualizationType: aws.String("hvm"),
	})
	if err != nil {
		return "", fmt.Errorf("register image %s: %w", name, err)
	}
	return aws.ToString(image.ImageId), nil
}

func named(kind types.ResourceType, name string) []types.TagSpecification {
	return []types.TagSpecification{{
		ResourceType: kind, Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String(name)}},
	}}
}

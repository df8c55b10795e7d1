package ec2

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

const (
	// defaultImageParameter is AWS's public alias of the newest Amazon Linux 2023, but for the architecture.
	// Source: "Reference the latest AMIs using Systems Manager public parameters".
	defaultImageParameter = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-"

	imageAvailable = "available"
)

// TypeInfo is what matters of an instance type.
type TypeInfo struct {
	architectures []string
	// VCPUs of the type by default; 0 when EC2 does not say.
	VCPUs int32
	// Memory in bytes; 0 when EC2 does not say.
	Memory uint64
}

// Architecture is the one of the two that EC2 sells servers in; an x86_64 type also lists i386.
func (t TypeInfo) Architecture() string {
	for _, a := range []string{string(types.ArchitectureValuesX8664), string(types.ArchitectureValuesArm64)} {
		if slices.Contains(t.architectures, a) {
			return a
		}
	}
	return ""
}

// Image is an instance image. State is available, pending, or one of EC2's failure states. RootGiB is the size of its root
// volume in GiB, below which a launch must not go; 0 when the image does not say. Others are the EBS volumes that it brings besides.
type Image struct {
	ID, Architecture, State, RootDevice string
	RootGiB                             int32
	// RootOnInstanceStore says that the root is no EBS volume. EC2 cannot stop such an instance.
	RootOnInstanceStore bool
	Others              []ImageVolume
}

// ImageVolume is an EBS volume that an image brings besides its root. SizeGiB is 0 when the image does not say.
type ImageVolume struct {
	Device  string
	SizeGiB int32
}

// images reads images and instance types, and keeps the answers, which change rarely.
type images struct {
	api    awsapi.API
	ssm    awsapi.SSMAPI
	region string
	clock  clock.PassiveClock

	images     *cache[Image]
	parameters *cache[string]
	types      *cache[TypeInfo]
	offerings  *cache[map[string]bool]
}

func newImages(of awsapi.Clients, region string, c clock.PassiveClock) *images {
	return &images{
		api: of.EC2, ssm: of.SSM, region: region, clock: c,
		images: newCache[Image](imageFor), parameters: newCache[string](imageFor),
		types: newCache[TypeInfo](typeFor), offerings: newCache[map[string]bool](typeFor),
	}
}

// resolve is the image with the given id; without one, the image that the Systems Manager parameter names; without
// that, the newest Amazon Linux 2023 for the instance type's architecture. Answers are kept for an hour, except that an
// image which is not available yet is asked for again (it is returned with its state, without an error).
//
// Errors: Invalid when parameter or image do not exist.
func (i *images) resolve(ctx context.Context, imageID, ssmParameter, instanceType string) (Image, error) {
	if imageID == "" {
		var err error
		if imageID, err = i.imageOfParameter(ctx, ssmParameter, instanceType); err != nil {
			return Image{}, err
		}
	}
	return i.image(ctx, imageID)
}

func (i *images) imageOfParameter(ctx context.Context, name, instanceType string) (string, error) {
	if name == "" {
		info, err := i.instanceType(ctx, instanceType)
		if err != nil {
			return "", err
		}
		name = defaultImageParameter + info.Architecture()
	}
	if id, ok := i.parameters.get(name, i.clock.Now()); ok {
		return id, nil
	}
	answer, err := i.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String(name)})
	if err != nil {
		if strings.HasPrefix(awsapi.Code(err), "ParameterNotFound") {
			return "", &awsapi.Error{Class: awsapi.Invalid, Err: err,
				Text: fmt.Sprintf("there is no Systems Manager parameter %s in %s: correct spec.aws.imageSSMParameter, or set spec.aws.imageID", name, i.region)}
		}
		return "", fmt.Errorf("resolve the image parameter %s: %w", name, err)
	}
	id := ""
	if answer.Parameter != nil {
		id = aws.ToString(answer.Parameter.Value)
	}
	if !strings.HasPrefix(id, "ami-") {
		return "", &awsapi.Error{Class: awsapi.Invalid, Text: fmt.Sprintf(
			"the Systems Manager parameter %s does not hold the id of an image: correct spec.aws.imageSSMParameter", name)}
	}
	i.parameters.set(name, id, i.clock.Now())
	return id, nil
}

// image describes one image.
func (i *images) image(ctx context.Context, id string) (Image, error) {
	if found, ok := i.images.get(id, i.clock.Now()); ok {
		return found, nil
	}
	answer, err := i.api.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
	if err == nil && len(answer.Images) == 1 {
		found := toImage(answer.Images[0])
		if found.State == imageAvailable {
			i.images.set(id, found, i.clock.Now())
		}
		return found, nil
	}
	if err == nil || strings.HasPrefix(awsapi.Code(err), "InvalidAMIID.") && awsapi.Code(err) != "InvalidAMIID.Unavailable" {
		return Image{}, noImage(id, i.region, err)
	}
	return Image{}, fmt.Errorf("describe image %s: %w", id, err)
}

// noImage is the error of an image that EC2 does not show.
func noImage(id, region string, err error) error {
	return &awsapi.Error{Class: awsapi.Invalid, Err: err, Text: fmt.Sprintf("there is no image %s in %s, or it is not shared with this account, "+
		"or the account's Allowed AMIs setting excludes it: correct spec.aws.imageID", id, region)}
}

// instanceType describes one instance type; an unknown one is an error of class Invalid.
func (i *images) instanceType(ctx context.Context, name string) (TypeInfo, error) {
	if found, ok := i.types.get(name, i.clock.Now()); ok {
		return found, nil
	}
	answer, err := i.api.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{types.InstanceType(name)}})
	if err == nil && len(answer.InstanceTypes) == 1 {
		found := TypeInfo{}
		if p := answer.InstanceTypes[0].ProcessorInfo; p != nil {
			for _, a := range p.SupportedArchitectures {
				found.architectures = append(found.architectures, string(a))
			}
		}
		if v := answer.InstanceTypes[0].VCpuInfo; v != nil {
			found.VCPUs = aws.ToInt32(v.DefaultVCpus)
		}
		if m := answer.InstanceTypes[0].MemoryInfo; m != nil {
			found.Memory = uint64(max(0, aws.ToInt64(m.SizeInMiB))) << 20
		}
		i.types.set(name, found, i.clock.Now())
		return found, nil
	}
	if err == nil || awsapi.Classify(err) == awsapi.Invalid {
		return TypeInfo{}, &awsapi.Error{Class: awsapi.Invalid, Err: err,
			Text: fmt.Sprintf("there is no instance type %s in %s: correct spec.aws.instanceType", name, i.region)}
	}
	return TypeInfo{}, fmt.Errorf("describe instance type %s: %w", name, err)
}

// zonesOffering are the availability zones of the region in which EC2 sells an instance type.
func (i *images) zonesOffering(ctx context.Context, instanceType string) (map[string]bool, error) {
	if found, ok := i.offerings.get(instanceType, i.clock.Now()); ok {
		return found, nil
	}
	zones := map[string]bool{}
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(i.api, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone, Filters: []types.Filter{awsapi.Filter("instance-type", instanceType)}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the zones that offer %s: %w", instanceType, err)
		}
		for _, o := range page.InstanceTypeOfferings {
			zones[aws.ToString(o.Location)] = true
		}
	}
	i.offerings.set(instanceType, zones, i.clock.Now())
	return zones, nil
}

func toImage(i types.Image) Image {
	out := Image{
		ID: aws.ToString(i.ImageId), Architecture: string(i.Architecture), State: string(i.State),
		RootDevice: aws.ToString(i.RootDeviceName), RootOnInstanceStore: i.RootDeviceType == types.DeviceTypeInstanceStore,
	}
	for _, m := range i.BlockDeviceMappings {
		switch device := aws.ToString(m.DeviceName); {
		case m.Ebs == nil:
		case device == out.RootDevice:
			out.RootGiB = aws.ToInt32(m.Ebs.VolumeSize)
		default:
			out.Others = append(out.Others, ImageVolume{Device: device, SizeGiB: aws.ToInt32(m.Ebs.VolumeSize)})
		}
	}
	return out
}

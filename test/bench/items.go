package bench

// Items as EC2 returns them for a machine and a volume of the operator, element for element as its API reference has them
// (DescribeInstances, DescribeVolumes). What is in braces is filled in.
const (
	instanceItem = `<item><reservationId>r-{serial}</reservationId><ownerId>123456789012</ownerId><groupSet/><instancesSet><item>` +
		`<instanceId>{instance}</instanceId><imageId>{image}</imageId><instanceState><code>16</code><name>running</name></instanceState>` +
		`<privateDnsName>ip-{host}.ec2.internal</privateDnsName><dnsName/><reason/><keyName>platform</keyName><amiLaunchIndex>0</amiLaunchIndex>` +
		`<productCodes/><instanceType>m6i.large</instanceType><launchTime>{launched}</launchTime>` +
		`<placement><availabilityZone>{zone}</availabilityZone><availabilityZoneId>use1-az1</availabilityZoneId><groupName/><tenancy>default</tenancy></placement>` +
		`<monitoring><state>disabled</state></monitoring><subnetId>{subnet}</subnetId><vpcId>{vpc}</vpcId><privateIpAddress>{ip}</privateIpAddress>` +
		`<sourceDestCheck>true</sourceDestCheck><groupSet><item><groupId>sg-{serial}</groupId><groupName>nairobi-mysql-{serial}</groupName></item></groupSet>` +
		`<architecture>x86_64</architecture><rootDeviceType>ebs</rootDeviceType><rootDeviceName>/dev/xvda</rootDeviceName><blockDeviceMapping>` +
		`<item><deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-1{serial}</volumeId><status>attached</status><attachTime>{launched}</attachTime>` +
		`<deleteOnTermination>true</deleteOnTermination></ebs></item>` +
		`<item><deviceName>/dev/sdf</deviceName><ebs><volumeId>{volume}</volumeId><status>attached</status><attachTime>{launched}</attachTime>` +
		`<deleteOnTermination>false</deleteOnTermination></ebs></item></blockDeviceMapping>` +
		`<virtualizationType>hvm</virtualizationType><clientToken>8b1f0c1e-6f0a-5d3f-9b8e-{serial}</clientToken>{tags}<hypervisor>xen</hypervisor>` +
		`<networkInterfaceSet><item><networkInterfaceId>eni-{serial}</networkInterfaceId><subnetId>{subnet}</subnetId><vpcId>{vpc}</vpcId><description/>` +
		`<ownerId>123456789012</ownerId><status>in-use</status><macAddress>02:00:0a:4d:01:02</macAddress><privateIpAddress>{ip}</privateIpAddress>` +
		`<privateDnsName>ip-{host}.ec2.internal</privateDnsName><sourceDestCheck>true</sourceDestCheck>` +
		`<groupSet><item><groupId>sg-{serial}</groupId><groupName>nairobi-mysql-{serial}</groupName></item></groupSet>` +
		`<attachment><attachmentId>eni-attach-{serial}</attachmentId><deviceIndex>0</deviceIndex><status>attached</status><attachTime>{launched}</attachTime>` +
		`<deleteOnTermination>true</deleteOnTermination><networkCardIndex>0</networkCardIndex></attachment>` +
		`<privateIpAddressesSet><item><privateIpAddress>{ip}</privateIpAddress><privateDnsName>ip-{host}.ec2.internal</privateDnsName><primary>true</primary>` +
		`</item></privateIpAddressesSet><ipv6AddressesSet/><interfaceType>interface</interfaceType><operator><managed>false</managed></operator></item></networkInterfaceSet>` +
		`<iamInstanceProfile><arn>arn:aws:iam::123456789012:instance-profile/mysql</arn><id>AIPAEXAMPLEEXAMPLEEXA</id></iamInstanceProfile>` +
		`<ebsOptimized>false</ebsOptimized><enaSupport>true</enaSupport><cpuOptions><coreCount>1</coreCount><threadsPerCore>2</threadsPerCore></cpuOptions>` +
		`<capacityReservationSpecification><capacityReservationPreference>open</capacityReservationPreference></capacityReservationSpecification>` +
		`<hibernationOptions><configured>false</configured></hibernationOptions><enclaveOptions><enabled>false</enabled></enclaveOptions>` +
		`<metadataOptions><state>applied</state><httpTokens>required</httpTokens><httpPutResponseHopLimit>1</httpPutResponseHopLimit><httpEndpoint>enabled</httpEndpoint>` +
		`<httpProtocolIpv6>disabled</httpProtocolIpv6><instanceMetadataTags>disabled</instanceMetadataTags></metadataOptions>` +
		`<maintenanceOptions><autoRecovery>default</autoRecovery><rebootMigration>default</rebootMigration></maintenanceOptions>` +
		`<platformDetails>Linux/UNIX</platformDetails><usageOperation>RunInstances</usageOperation><usageOperationUpdateTime>{launched}</usageOperationUpdateTime>` +
		`<bootMode>uefi-preferred</bootMode><currentInstanceBootMode>uefi</currentInstanceBootMode><privateDnsNameOptions><hostnameType>ip-name</hostnameType>` +
		`<enableResourceNameDnsARecord>false</enableResourceNameDnsARecord><enableResourceNameDnsAAAARecord>false</enableResourceNameDnsAAAARecord></privateDnsNameOptions>` +
		`<operator><managed>false</managed></operator></item></instancesSet></item>`

	volumeItem = `<item><volumeId>{volume}</volumeId><size>20</size><snapshotId/><availabilityZone>{zone}</availabilityZone>` +
		`<availabilityZoneId>use1-az1</availabilityZoneId><status>in-use</status><createTime>{launched}</createTime><attachmentSet><item>` +
		`<volumeId>{volume}</volumeId><instanceId>{instance}</instanceId><device>/dev/sdf</device><status>attached</status><attachTime>{launched}</attachTime>` +
		`<deleteOnTermination>false</deleteOnTermination></item></attachmentSet>{version}<volumeType>gp3</volumeType><iops>3000</iops><throughput>125</throughput>` +
		`<encrypted>true</encrypted><kmsKeyId>arn:aws:kms:us-east-1:123456789012:key/8b1f0c1e-6f0a-5d3f-9b8e-0a1b2c3d4e5f</kmsKeyId>` +
		`<multiAttachEnabled>false</multiAttachEnabled><operator><managed>false</managed></operator></item>`
)

package resources

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// portName names the one port of every Service; service meshes read the protocol from it.
const portName = "mysql"

// Member is one member as clients may be sent to it.
type Member struct {
	// Name is the member's name, for example orders-0. It becomes its host name under the headless Service.
	Name string
	// Address is the private IPv4 address of the member's instance. A member without one is left out.
	Address string
	// Ready says that clients may be sent to the member in its role.
	Ready bool
	// Primary says that the member is the one that takes writes.
	Primary bool
}

// Services returns the three Services of a cluster: primary, replicas, headless. None has a selector: the endpoints are
// outside Kubernetes and come from [EndpointSlices].
func Services(c *v1alpha1.MySQLCluster) []*corev1ac.ServiceApplyConfiguration {
	names := NamesOf(c.Name)
	primary, replicas, headless := names.Primary, names.Replicas, names.Headless
	all := service(c, headless, ComponentHeadless)
	// A member's own name must lead to it before it is ready too, for whoever has to look into why it is not.
	all.Spec.WithClusterIP(corev1.ClusterIPNone).WithPublishNotReadyAddresses(true)
	return []*corev1ac.ServiceApplyConfiguration{
		service(c, primary, ComponentPrimary),
		service(c, replicas, ComponentReplicas),
		all,
	}
}

func service(c *v1alpha1.MySQLCluster, name, component string) *corev1ac.ServiceApplyConfiguration {
	return ours(corev1ac.Service(name, c.Namespace), c, component).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			// Said although they are the defaults, so that nobody else's word stands. The members are on no node of Kubernetes.
			WithPublishNotReadyAddresses(false).
			WithInternalTrafficPolicy(corev1.ServiceInternalTrafficPolicyCluster).
			// The members' addresses are IPv4, also where the cluster prefers IPv6.
			WithIPFamilyPolicy(corev1.IPFamilyPolicySingleStack).
			WithIPFamilies(corev1.IPv4Protocol).
			WithPorts(corev1ac.ServicePort().
				WithName(portName).
				WithProtocol(corev1.ProtocolTCP).
				WithPort(v1alpha1.MySQLPort)))
}

// EndpointSlices returns one slice a Service, in the order of [Services], each there even when it has no endpoint.
// The order of members does not matter. Members whose address is not IPv4 are left out.
func EndpointSlices(c *v1alpha1.MySQLCluster, members []Member) []*discoveryv1ac.EndpointSliceApplyConfiguration {
	names := NamesOf(c.Name)
	primary, replicas, headless := names.Primary, names.Replicas, names.Headless
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })

	primarySlice := endpointSlice(c, primary, ComponentPrimary)
	replicaSlice := endpointSlice(c, replicas, ComponentReplicas)
	headlessSlice := endpointSlice(c, headless, ComponentHeadless)
	for _, m := range sorted {
		if address, err := netip.ParseAddr(m.Address); err != nil || !address.Is4() {
			continue
		}
		if m.Primary {
			primarySlice.WithEndpoints(endpoint(m, m.Ready))
		} else {
			replicaSlice.WithEndpoints(endpoint(m, m.Ready))
		}
		// Endpoints of a Service that publishes addresses which are not ready are written as ready: DNS servers go by
		// that condition alone. What is true is said by "serving".
		headlessSlice.WithEndpoints(endpoint(m, true).WithHostname(m.Name))
	}
	return []*discoveryv1ac.EndpointSliceApplyConfiguration{primarySlice, replicaSlice, headlessSlice}
}

func endpoint(m Member, ready bool) *discoveryv1ac.EndpointApplyConfiguration {
	return discoveryv1ac.Endpoint().
		WithAddresses(m.Address).
		WithConditions(discoveryv1ac.EndpointConditions().
			WithReady(ready).
			WithServing(m.Ready).
			WithTerminating(false))
}

func endpointSlice(c *v1alpha1.MySQLCluster, service, component string) *discoveryv1ac.EndpointSliceApplyConfiguration {
	return discoveryv1ac.EndpointSlice(service, c.Namespace).
		WithLabels(Labels(c, component)).
		WithLabels(map[string]string{
			discoveryv1.LabelServiceName: service,
			// Without this label, Kubernetes' own controller would take the slice for one of its own and delete it.
			discoveryv1.LabelManagedBy: v1alpha1.FieldManager,
		}).
		WithAnnotations(mark(c)).
		WithOwnerReferences(owner(c)).
		WithAddressType(discoveryv1.AddressTypeIPv4).
		WithPorts(discoveryv1ac.EndpointPort().
			WithName(portName).
			WithProtocol(corev1.ProtocolTCP).
			WithPort(v1alpha1.MySQLPort))
}

// MemberDNSNames returns the names that a member's certificate must be valid for: its own under the headless Service,
// and those of all three Services, because any member may be promoted, and a client verifies the name that it dialled.
// Each comes in every form in which a pod may write it; the forms with the cluster domain are left out when it is empty.
// The first name is `<member>.<cluster>.<namespace>.svc`, the one that the operator itself verifies.
func MemberDNSNames(c *v1alpha1.MySQLCluster, member, clusterDomain string) []string {
	services := NamesOf(c.Name)
	var names []string
	for _, name := range []string{member + "." + services.Headless, services.Primary, services.Replicas, services.Headless} {
		full := name + "." + c.Namespace + ".svc"
		names = append(names, full)
		if clusterDomain != "" {
			names = append(names, full+"."+clusterDomain)
		}
		names = append(names, name+"."+c.Namespace, name)
	}
	return names
}

// PrimaryHost returns the name under which pods reach the primary.
func PrimaryHost(c *v1alpha1.MySQLCluster) string {
	return NamesOf(c.Name).Primary + "." + c.Namespace + ".svc"
}

// ReplicasHost returns the name under which pods reach the replicas.
func ReplicasHost(c *v1alpha1.MySQLCluster) string {
	return NamesOf(c.Name).Replicas + "." + c.Namespace + ".svc"
}

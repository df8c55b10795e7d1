package v1alpha1

// AnnotationServed is the operator's own. It is on a cluster that was served with the role of its spec while the administrator's
// policy listed that role for its namespace, and proves it: the value is an HMAC of the cluster's UID and the role, with a key
// that only the operator's namespace holds. A grant that is withdrawn later does not keep the cluster from being deleted.
const AnnotationServed = Prefix + "served"

// ServedKeySecret names the Secret in the operator's namespace with the key of AnnotationServed and AnnotationPlace.
const ServedKeySecret = "nairobi-mysql-served-key"

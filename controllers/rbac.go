package controllers

// What the operator may do, as the ClusterRole and the Role under config/rbac are generated from it.
//
// Secrets, Services, EndpointSlices and ConfigMaps live beside their cluster, in any namespace. RBAC cannot select by
// label, so the rule is wider than the use: only objects that carry the operator's own label are listed and cached;
// a user's Secret is read by name, when his cluster names it, and gets a finalizer while the cluster's deletion needs it.
// EndpointSlices hold the addresses of EC2 instances, never of pods, so endpointslices/restricted is not needed.
// What is applied must also be allowed to be created. What is deleted with its cluster, the garbage collector deletes.
// OwnerReferencesPermissionEnforcement, where it is switched on (OpenShift), asks for the right to update the finalizers of an owner,
// and for the right to delete an object that gets its owner back.
// The tests of this package run the operator with these grants alone, and fail when one is missing or when none of them used it.
//
// +kubebuilder:rbac:groups=mysql.alx.ke,resources=mysqlclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=mysql.alx.ke,resources=mysqlclusters/status,verbs=patch
// +kubebuilder:rbac:groups=mysql.alx.ke,resources=mysqlclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=endpoints,verbs=delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// Backups: the pods' identity, their Jobs and schedules. The operator may give the pods' Role only what it may do itself.
// +kubebuilder:rbac:groups=mysql.alx.ke,resources=mysqlbackups,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=mysql.alx.ke,resources=mysqlbackups/status,verbs=patch
// +kubebuilder:rbac:groups=mysql.alx.ke,resources=mysqlbackups/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=list;watch;create;patch;delete
// The Deployment that exports metrics, and the PodMonitor by which prometheus-operator finds it.
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors;prometheusrules,verbs=get;create;patch;delete
// The claim of the archive's pod grows.
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;patch
//
// Whoever reads the metrics is authenticated and authorised by the API server.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// The lease of the leader. OLM makes a ClusterRole of a Role whose operator watches all namespaces, so the name is what limits it there;
// RBAC cannot limit create by name. The list by name finds the leases of other installations.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=nairobi-mysql-system,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=nairobi-mysql-operator,namespace=nairobi-mysql-system,verbs=get;update
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=nairobi-mysql-operator,verbs=list

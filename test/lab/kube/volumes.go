package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// storageClass is the default one: the first claim that fits gets one of the node's volumes, which nobody uses again.
	storageClass = "lab"
	// volumeCount is how many claims the scenarios of one lab make, with some to spare.
	volumeCount = 8
	// volumeSize is what the volumes claim to hold. They share the machine's disk.
	volumeSize = "16Gi"
	// volumesFolder is where they are on the node.
	volumesFolder = "/var/lib/lab-volumes"
)

// makeVolumes makes directories of the node into persistent volumes.
func (c *Cluster) makeVolumes(ctx context.Context) error {
	_, err := c.api.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: storageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the storage class: %w", err)
	}
	for n := range volumeCount {
		name := "lab-" + strconv.Itoa(n)
		if err := os.MkdirAll(filepath.Join(c.layout.state, "volumes", name), 0o750); err != nil {
			return err
		}
		if _, err := c.api.CoreV1().PersistentVolumes().Create(ctx, volume(name), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make volume %s: %w", name, err)
		}
	}
	return nil
}

func volume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(volumeSize)},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              storageClass,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: filepath.Join(volumesFolder, name)}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{NodeName}}},
			}}}},
		},
	}
}

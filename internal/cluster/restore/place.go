package restore

import (
	"context"
	"fmt"
	"regexp"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/mark"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

// fieldRecovery is the path of what a cluster begins with.
const fieldRecovery = "spec.bootstrap.recovery"

// uidPart is what the path of a cluster's folder ends with.
var uidPart = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// placeOf returns where a backup was written, nil when nobody knows who may say so: where the operator recorded it. Of a backup of an operator
// that recorded no place it is the destination of the new cluster's own spec, when reported, which is from the status, is the same place.
func placeOf(ctx context.Context, marker mark.Marker, s *pass.Pass, b *v1alpha1.MySQLBackup, reported *v1alpha1.BackupDestination) (*v1alpha1.ObjectStoreSource, error) {
	place, err := marker.PlaceOf(ctx, b)
	if place != nil || err != nil {
		return place, err
	}
	spec := s.Cluster.Spec.Backup
	if spec == nil || !spec.Destination.SamePlace(reported) || !uidPart.MatchString(b.Status.ClusterUID) {
		return nil, nil
	}
	return &v1alpha1.ObjectStoreSource{Destination: *spec.Destination, Path: backup.RootOf(b.Namespace, b.Spec.ClusterName, b.Status.ClusterUID)}, nil
}

// dumpOf returns where a dump is. Of what the status says, only the name of its folder counts.
func dumpOf(ctx context.Context, marker mark.Marker, s *pass.Pass, b *v1alpha1.MySQLBackup) (*v1alpha1.BackupDestination, string, error) {
	place, err := placeOf(ctx, marker, s, b, b.Status.Destination)
	if err != nil {
		return nil, "", err
	}
	problem := &engine.Problem{Reason: v1alpha1.ReasonInvalidSpec, After: engine.AfterPerson}
	if place == nil {
		problem.Message = fmt.Sprintf("%s: nothing proves where MySQLBackup %s is stored (annotation %s). Check its status.destination and status.path, and restore them with objectStore into a new cluster",
			fieldRecovery, b.Name, v1alpha1.AnnotationPlace)
		return nil, "", problem
	}
	folder, found := backup.Place{Root: place.Path}.FolderAt(b.Status.Path, b.Name)
	if !found {
		problem.Message = fmt.Sprintf("%s: status.path of MySQLBackup %s names no folder of it in %s. Find the folder there, and restore it with objectStore into a new cluster",
			fieldRecovery, b.Name, place.Path)
		return nil, "", problem
	}
	return &place.Destination, backup.Place{Root: place.Path}.Folder(folder), nil
}

// archiveOf is where the binary logs are that lead on from a copy to a point in time: where the spec says, else where the operator recorded it on the
// MySQLBackup of the snapshot. It is nil when no point is asked for, and when nobody knows.
func archiveOf(ctx context.Context, marker mark.Marker, s *pass.Pass, of *v1alpha1.MySQLBackup) (*v1alpha1.ArchiveSource, error) {
	recovery := s.Cluster.Recovery()
	switch {
	case recovery.PointInTime == nil:
		return nil, nil
	case recovery.Archive != nil:
		return recovery.Archive, nil
	case of == nil || of.Status.Archive == nil:
		return nil, nil
	}
	place, err := placeOf(ctx, marker, s, of, &of.Status.Archive.Destination)
	if err != nil || place == nil {
		return nil, err
	}
	return &v1alpha1.ArchiveSource{Destination: place.Destination, Path: place.Path}, nil
}

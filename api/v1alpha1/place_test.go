package v1alpha1

import "testing"

func TestSamePlace(t *testing.T) {
	s3 := func(change func(*S3Destination)) *BackupDestination {
		d := &S3Destination{Bucket: "my-backups"}
		change(d)
		return &BackupDestination{S3: d}
	}
	claim := func(name string) *BackupDestination {
		return &BackupDestination{PersistentVolumeClaim: &ClaimDestination{ClaimName: name}}
	}
	plain := s3(func(*S3Destination) {})
	for name, row := range map[string]struct {
		other *BackupDestination
		of    *BackupDestination
		want  bool
	}{
		"nothing":           {nil, nil, false},
		"nothing reported":  {plain, nil, false},
		"the same":          {plain, s3(func(*S3Destination) {}), true},
		"other credentials": {plain, s3(func(d *S3Destination) { d.RoleARN = "arn" }), true},
		"another bucket":    {plain, s3(func(d *S3Destination) { d.Bucket = "theirs" }), false},
		"another endpoint":  {plain, s3(func(d *S3Destination) { d.Endpoint = "http://theirs" }), false},
		"another prefix":    {plain, s3(func(d *S3Destination) { d.Prefix = "theirs" }), false},
		"a claim":           {plain, claim("nas"), false},
		"the same claim":    {claim("nas"), claim("nas"), true},
		"another claim":     {claim("nas"), claim("theirs"), false},
		"neither":           {&BackupDestination{}, &BackupDestination{}, false},
	} {
		if got := row.other.SamePlace(row.of); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

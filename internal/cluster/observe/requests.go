package observe

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// requestsOf are what the annotations ask for. An epoch that is no number is one that no row has.
func requestsOf(c *v1alpha1.MySQLCluster) topology.Requests {
	asked := topology.Requests{SwitchoverTo: c.Annotations[v1alpha1.AnnotationSwitchover], RebuildMember: c.Annotations[v1alpha1.AnnotationRebuild]}
	if text := c.Annotations[v1alpha1.AnnotationAcceptLoss]; text != "" {
		var err error
		if asked.AcceptLoss, err = strconv.ParseUint(text, 10, 64); err != nil || asked.AcceptLoss == 0 {
			asked.AcceptLoss = math.MaxUint64
		}
	}
	return asked
}

// readRequests reads since when a person wants every mysqld to have been restarted, and every certificate to be signed.
func readRequests(s *pass.Pass) {
	s.Desired.RestartedAt = requestedAt(s, v1alpha1.AnnotationRestartedAt)
	s.Desired.CertificatesRenewedAt = requestedAt(s, v1alpha1.AnnotationCertificatesRenewedAt)
}

// requestedAt reads an annotation that names a time; zero when there is none, or none that can be read.
func requestedAt(s *pass.Pass, annotation string) time.Time {
	value := s.Cluster.Annotations[annotation]
	if value == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonInvalidSpec,
			Message: fmt.Sprintf("the annotation %s is %q, which is no time as in RFC 3339: write it like 2006-01-02T15:04:05Z", annotation, text.Shorten(value, 1024))})
	}
	return at
}

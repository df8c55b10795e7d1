package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const (
	// diagnoseLogLines is how much of the operator's log tells what went wrong without burying it.
	diagnoseLogLines = 80
	// diagnoseWidth is where a line is cut that is no entry of the log.
	diagnoseWidth = 300
)

// Diagnose writes what a person would look at when a cluster does not become what it should: its conditions and
// members, the events of its namespace, and the end of the operator's log. It writes what it can get.
func (l *Lab) Diagnose(ctx context.Context, w io.Writer, key client.ObjectKey) {
	cluster := &v1alpha1.MySQLCluster{}
	if err := l.Client.Get(ctx, key, cluster); err != nil {
		say(w, "cluster %s: %v\n", key, err)
	} else {
		diagnoseStatus(w, cluster)
	}
	l.diagnoseEvents(ctx, w, key.Namespace)
	logs, err := l.OperatorLogs(ctx, diagnoseLogLines)
	if err != nil {
		logs = err.Error() + "\n"
	}
	say(w, "\nOperator, the last %d lines:\n", diagnoseLogLines)
	for line := range strings.Lines(logs) {
		say(w, "%s\n", brief(strings.TrimRight(line, "\n")))
	}
}

// brief is a line of the operator's log without what is the same in all of them, and without stack traces.
func brief(line string) string {
	var entry struct {
		Level, TS, Msg, Namespace, Name, Error string
	}
	if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "" {
		return line[:min(len(line), diagnoseWidth)]
	}
	text := fmt.Sprintf("%s %s %s/%s: %s", entry.TS, entry.Level, entry.Namespace, entry.Name, entry.Msg)
	if entry.Error != "" {
		text += ": " + entry.Error
	}
	return text
}

func diagnoseStatus(w io.Writer, cluster *v1alpha1.MySQLCluster) {
	say(w, "\nCluster %s/%s: phase %q, %s ready, primary %q\n", cluster.Namespace, cluster.Name, cluster.Status.Phase,
		cluster.Status.ReadyMembers, cluster.Status.Primary)
	for _, c := range cluster.Status.Conditions {
		say(w, "  %-15s %-7s %-22s %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, m := range cluster.Status.Members {
		say(w, "  %-15s %-12s %-8s %s %s %s\n", m.Name, m.Phase, m.Role, m.InstanceID, m.Address, m.Message)
	}
}

func (l *Lab) diagnoseEvents(ctx context.Context, w io.Writer, namespace string) {
	var events corev1.EventList
	if err := l.Client.List(ctx, &events, client.InNamespace(namespace)); err != nil {
		say(w, "\nEvents: %v\n", err)
		return
	}
	slices.SortFunc(events.Items, func(a, b corev1.Event) int { return seen(a).Compare(seen(b)) })
	say(w, "\nEvents of namespace %s:\n", namespace)
	for _, e := range events.Items {
		say(w, "  %s %-7s %-22s %s %s: %s\n", seen(e).Format(time.TimeOnly), e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
	}
}

// seen returns when an event was last seen. Events of the new API carry only the time of their first report.
func seen(e corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}

// say writes a diagnosis; where it cannot be written nobody reads it either.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}

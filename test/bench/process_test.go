package bench

import (
	"errors"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/child"
)

// These tests hold the figures of an operator's own process to what they are said to be.

func TestUsageIsReadByField(t *testing.T) {
	// A process may call itself anything, also what looks like the fields after its name.
	stat := "4711 (a) b 1 (c) S 1 4711 4711 0 -1 4194560 9 8 7 6 250 50 3 2 20 0 14 0 1389123 1262415872 97031 18446744073709551615\n"
	status := "Name:\ta) b\nVmPeak:\t  999999 kB\nVmHWM:\t  500000 kB\nVmRSS:\t  388124 kB\nRssAnon:\t  322040 kB\nRssFile:\t   66084 kB\n"
	u, err := parseUsage(stat, status)
	if err != nil {
		t.Fatal(err)
	}
	if u.cpu != 3*time.Second || u.resident != 388124<<10 || u.anonymous != 322040<<10 {
		t.Errorf("%+v", u)
	}
	for what, files := range map[string][2]string{
		"no fields": {"4711 (a) S 1", status}, "no number": {"4711 (a) S 1 1 1 0 -1 1 9 8 7 6 much 50", status},
		"no memory": {stat, "Name:\ta\n"}, "memory that is no number": {stat, "VmRSS:\t lots kB\n"},
	} {
		if u, err := parseUsage(files[0], files[1]); err == nil {
			t.Errorf("%s: %+v", what, u)
		}
	}
}

func TestUsageGrowsWithWork(t *testing.T) {
	debug.FreeOSMemory() // what earlier tests left would be used again
	before, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const work, pageOfMemory = 200 * time.Millisecond, 4096
	held := make([]byte, 64<<20)
	for at := 0; at < len(held); at += pageOfMemory {
		held[at] = 1
	}
	after := before
	for began := time.Now(); after.cpu-before.cpu < work; {
		if after, err = usageOf(os.Getpid()); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > patience {
			t.Fatalf("%s of CPU time in %s of work", after.cpu-before.cpu, time.Since(began))
		}
	}
	if grown := after.anonymous - before.anonymous; grown < int64(len(held))/2 || held[0] != 1 {
		t.Errorf("%d bytes more of memory, for %d that were written to", grown, len(held))
	}
	if _, err := usageOf(-1); err == nil {
		t.Error("a process that does not exist uses something")
	}
}

// TestChildrenSeeTheSame: what an operator in another process is told leads to the same members and the same EC2.
func TestChildrenSeeTheSame(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "bench")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "bench")
	w, c, _ := trioOf(t, "orders")
	server := httptest.NewServer(w.cloud)
	t.Cleanup(server.Close)
	s := w.surroundings(server.URL)
	for address, m := range w.fleet.members {
		connection, err := s.Connect(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := connection.RemoteAddr().String(); got != m.listener.Addr().String() {
			t.Errorf("%s leads to %s", address, got)
		}
		_ = connection.Close()
	}
	if _, err := s.Connect(t.Context(), "tcp", "10.0.0.1:3306"); !errors.Is(err, child.ErrNobody) {
		t.Errorf("dialling a stranger: %v", err)
	}
	cloud, err := ec2.NewFactory(ec2.Options{Config: awsapi.Config{Endpoint: s.EC2}}).Cloud(t.Context(), awsapi.Account{Region: region})
	if err != nil {
		t.Fatal(err)
	}
	found, err := cloud.Inventory.Observe(t.Context(), string(c.UID), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Instances) != membersEach || len(found.Volumes) != membersEach || len(found.SecurityGroups) != 1 {
		t.Errorf("EC2 shows %+v", found)
	}
	w.size = 1
	if made := total(w.cloud.answered()); made != w.sweepCalls() {
		t.Errorf("a sweep made %d calls, expected are %d: %v", made, w.sweepCalls(), w.cloud.answered())
	}
}

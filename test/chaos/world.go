package chaos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

const (
	// provisionTimeout bounds a new cluster's way to Ready.
	provisionTimeout = 8 * time.Minute
	// setupTimeout bounds the preparation.
	setupTimeout = time.Minute
)

// Options of a run.
type Options struct {
	// Lab is the lab, with the operator installed and the namespace allowed.
	Lab *deploy.Lab
	// Key is the cluster. It is made when it is not there.
	Key client.ObjectKey
	// Seed of every choice.
	Seed uint64
	// Dir takes the ledger and what is collected after a failure.
	Dir string
	// Out gets the live lines.
	Out io.Writer
	// HoldAtMost is when a fault is healed at the latest; 0: as its kind says.
	HoldAtMost time.Duration
	// Behind is how long a replica is cut off so that it falls far behind; 0: DefaultBehind.
	Behind time.Duration
}

// World is a cluster under load, and what can be done to it.
type World struct {
	lab    *deploy.Lab
	key    client.ObjectKey
	random *rand.Rand
	dir    string
	out    io.Writer
	// holdAtMost is when a fault is healed at the latest; 0: as its kind says.
	holdAtMost time.Duration
	// behind is how long a replica is cut off so that it falls far behind; 0: DefaultBehind.
	behind time.Duration

	access access
	ledger *Ledger
	load   *Load
	watch  *watcher
	judge  *statusJudge
	// judged counts the lies that belong to earlier faults.
	judged int
	// faultBegan is when the present fault began.
	faultBegan time.Time
	// round counts the faults; 0 is the time before the first. settled are the rows of earlier rounds, which were compared
	// one by one when those ended.
	round   int
	settled digest
}

// Open makes the cluster when it is missing, waits until it is Ready, and begins to write to it.
func Open(ctx context.Context, o Options) (*World, error) {
	w := &World{
		lab: o.Lab, key: o.Key, dir: o.Dir, out: o.Out, holdAtMost: o.HoldAtMost, behind: o.Behind,
		judge: newStatusJudge(), random: rand.New(rand.NewPCG(o.Seed, o.Seed)), //nolint:gosec // it must be repeatable
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return nil, err
	}
	if err := w.provision(ctx); err != nil {
		return nil, err
	}
	if err := w.introduce(ctx); err != nil {
		return nil, fmt.Errorf("connect as an application: %w", err)
	}
	var err error
	if w.ledger, err = NewLedger(filepath.Join(w.dir, "ledger.txt")); err != nil {
		return nil, err
	}
	service, err := w.service(ctx)
	if err != nil {
		return nil, errors.Join(err, w.ledger.Close())
	}
	if err := w.prepare(ctx, service); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the table: %w", err), w.ledger.Close())
	}
	w.watch = watchCluster(w.lab, w.key, w.ledger, w.judge)
	w.load = newLoad(w.access, w.ledger, w.judge, service)
	if err := w.settle(ctx, time.Now()); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	for began := time.Now(); !w.judge.leading(); { // a leader renews every two seconds
		if err := pause(ctx, lookEvery); err != nil || time.Since(began) > setupTimeout {
			return nil, errors.Join(errors.New("no renewal of the operator's lease was seen: its status cannot be judged"), err, w.Close())
		}
	}
	return w, nil
}

// Close ends the load. The cluster stays.
func (w *World) Close() error {
	w.load.Stop()
	w.watch.stop()
	return w.ledger.Close()
}

// provision applies the cluster and waits until it is Ready.
func (w *World) provision(ctx context.Context) error {
	cluster, err := w.lab.Sample()
	if err != nil {
		return err
	}
	cluster.Namespace, cluster.Name = w.key.Namespace, w.key.Name
	cluster.Spec.Database = &v1alpha1.DatabaseSpec{Name: "app"}
	cluster.Spec.DeletionProtection = ptr.To(false)
	if err := w.lab.AllowLab(ctx, w.key.Namespace); err != nil {
		return err
	}
	if err := w.lab.Apply(ctx, cluster); err != nil {
		return err
	}
	_, err = w.lab.WaitReady(ctx, w.key, provisionTimeout, nil)
	return err
}

// introduce reads how an application connects, and where the node's network is.
func (w *World) introduce(ctx context.Context) error {
	var secret corev1.Secret
	if err := w.lab.Client.Get(ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: w.key.Name + "-app"}, &secret); err != nil {
		return err
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return errors.New("the Secret holds no authority")
	}
	var status struct {
		NodePID int `json:"nodePID"`
	}
	data, err := os.ReadFile(filepath.Join(w.lab.Dir, "status.json"))
	if err != nil {
		return fmt.Errorf("read the lab's status: %w", err)
	}
	if err := json.Unmarshal(data, &status); err != nil || status.NodePID == 0 {
		return errors.Join(errors.New("the lab's status names no node"), err)
	}
	w.access = access{
		network: nodeNetwork{pid: status.NodePID}, authority: authority,
		user: string(secret.Data["username"]), password: string(secret.Data["password"]), database: string(secret.Data["database"]),
	}
	return nil
}

// owner connects as the operator does, for what no application may do.
func (w *World) owner(ctx context.Context) (access, error) {
	var secret corev1.Secret
	if err := w.lab.Client.Get(ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: w.key.Name + "-operator-tls"}, &secret); err != nil {
		return access{}, err
	}
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return access{}, fmt.Errorf("read the operator's certificate: %w", err)
	}
	return access{network: w.access.network, authority: w.access.authority, user: "nairobi_operator", certificate: &certificate}, nil
}

// service is the primary Service, by its address inside of Kubernetes.
func (w *World) service(ctx context.Context) (target, error) {
	name := w.key.Name + "-primary"
	var service corev1.Service
	if err := w.lab.Client.Get(ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: name}, &service); err != nil {
		return target{}, err
	}
	return target{address: hostPort(service.Spec.ClusterIP), name: name + "." + w.key.Namespace + ".svc"}, nil
}

// prepare makes the table of the writes, empty. Its key is given by the server and not the write's id: what was written
// twice would be there twice.
func (w *World) prepare(ctx context.Context, service target) error {
	db, err := w.open(service)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	// What its clients take for a server that is gone may on a busy machine be one that is late.
	for err = db.PingContext(ctx); err != nil; err = db.PingContext(ctx) {
		if pause(ctx, redialPace) != nil {
			return err
		}
	}
	for _, statement := range []string{
		"DROP TABLE IF EXISTS writes",
		`CREATE TABLE writes (pos BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, id BIGINT UNSIGNED NOT NULL,
			round INT NOT NULL, worker INT NOT NULL, seq INT UNSIGNED NOT NULL, server INT UNSIGNED NOT NULL, KEY (round))`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// cluster reads the cluster.
func (w *World) cluster(ctx context.Context) (*v1alpha1.MySQLCluster, error) {
	var c v1alpha1.MySQLCluster
	err := w.lab.Client.Get(ctx, w.key, &c)
	return &c, err
}

// members says where the members of a status are, by ordinal.
func (w *World) members(c *v1alpha1.MySQLCluster) map[int]target {
	found := map[int]target{}
	for _, m := range c.Status.Members {
		ordinal, err := strconv.Atoi(m.Name[strings.LastIndex(m.Name, "-")+1:])
		if err != nil || m.Address == "" {
			continue
		}
		found[ordinal] = target{address: hostPort(m.Address), name: fmt.Sprintf("%s.%s.%s.svc", m.Name, c.Name, c.Namespace)}
	}
	return found
}

// say prints a live line.
func (w *World) say(format string, args ...any) {
	_, _ = fmt.Fprintf(w.out, format+"\n", args...)
}

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// handLimit bounds a call of the lab's control APIs; a fault may wait for an instance to end.
const handLimit = time.Minute

// mysqldUnit is the unit of mysqld on a member's instance.
const mysqldUnit = "nairobi-mysqld.service"

// do does one fault of the lab's control API.
func (w *World) do(ctx context.Context, fault string, parties ...string) error {
	query := url.Values{}
	if len(parties) > 0 {
		query.Set("instance", parties[0])
	}
	if len(parties) > 1 {
		query.Set("other", parties[1])
	}
	err := call(ctx, http.MethodPost, "http://"+cloud.ControlAddress+"/faults/"+fault+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("%s %s: %w", fault, strings.Join(parties, " "), err)
	}
	return nil
}

// rule puts a rule of the EC2 proxy in force.
func (w *World) rule(ctx context.Context, r proxy.Rule) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return call(ctx, http.MethodPost, "http://"+cloud.ProxyControlAddress+"/rules", body)
}

// noRules ends all rules of the EC2 proxy.
func (w *World) noRules(ctx context.Context) error {
	return call(ctx, http.MethodDelete, "http://"+cloud.ProxyControlAddress+"/rules", nil)
}

func call(ctx context.Context, method, address string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, handLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= http.StatusBadRequest {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 1<<12)) // the status is error enough
		return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(said)))
	}
	return nil
}

// operators are the operator's pods that run.
func (w *World) operators(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := w.lab.OperatorPods(ctx)
	if err != nil {
		return nil, err
	}
	var running []corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			running = append(running, pod)
		}
	}
	if len(running) == 0 {
		return nil, fmt.Errorf("no pod of the operator runs")
	}
	return running, nil
}

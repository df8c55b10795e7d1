package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

// fault is one entry of the control API.
type fault struct {
	name string
	help string
	do   func(ctx context.Context, instance, other string) error
}

// Fault is one that the cloud's owner adds to the control API, for things that are not the cloud's.
type Fault struct {
	Name, Help string
	// Do does it to what the caller named in place of an instance.
	Do func(ctx context.Context, target string) error
}

// faults lists what the control API can do. The second argument is another
// instance, or a unit.
func (c *Cloud) faults() []fault {
	one := func(f func(context.Context, string) error) func(context.Context, string, string) error {
		return func(ctx context.Context, instance, _ string) error { return f(ctx, instance) }
	}
	known := []fault{
		{"powercut", "take the power away; what is not on disk is lost", one(c.PowerCut)},
		{"crash", "kill every process", one(c.Crash)},
		{"poweron", "give power back after powercut or crash", one(c.PowerOn)},
		{"freeze", "stop all processes; the kernel still accepts connections", one(c.Freeze)},
		{"thaw", "end freeze", one(c.Thaw)},
		{"isolate", "cut the machine off from everybody", one(c.Isolate)},
		{"rejoin", "end isolate", one(c.Rejoin)},
		{"part", "cut the way to another instance, both ways", c.Part},
		{"join", "end part", c.Join},
		{"cut", "drop what goes from the first party to the other (an instance, members, node, pod:ADDRESS)", c.Cut},
		{"mend", "end cut", c.Mend},
		{"mendall", "end every cut and part; names nobody", func(ctx context.Context, _, _ string) error { return c.MendAll(ctx) }},
		{"kill", "kill the processes of a unit", c.KillUnit},
		{"poweroff", "let the guest shut itself down", one(c.PowerOff)},
		{"fill", "leave no room on the data volume, or so many percent (other)", c.Fill},
		{"drain", "end fill", one(c.Drain)},
		{"spoil", "put something that fails in the place of a program (other is its path in the guest)", c.Spoil},
	}
	for _, f := range c.options.Faults {
		known = append(known, fault{f.Name, f.Help, func(ctx context.Context, target, _ string) error { return f.Do(ctx, target) }})
	}
	return known
}

// startControl serves:
//
//	GET  /instances                             State of each
//	GET  /instances/{id}/console                its console, as text
//	GET  /faults                                names and what they do
//	POST /faults/{name}?instance=i-…[&other=…]  do one; other is an instance, a party of a cut, a unit or a program
//	POST /status                                status checks and events of an instance (JSON of moto.Status)
func (c *Cloud) startControl(ctx context.Context) (*http.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ControlAddress)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /instances", func(w http.ResponseWriter, _ *http.Request) { reply(w, c.Instances()) })
	mux.HandleFunc("GET /instances/{id}/console", func(w http.ResponseWriter, r *http.Request) {
		text, err := c.Console(r.PathValue("id"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		write(w, text)
	})
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) {
		help := map[string]string{}
		for _, f := range c.faults() {
			help[f.name] = f.help
		}
		reply(w, help)
	})
	mux.HandleFunc("POST /faults/{name}", c.serveFault)
	mux.HandleFunc("POST /status", c.serveStatus)
	return serve(listener, mux), nil
}

func (c *Cloud) serveFault(w http.ResponseWriter, r *http.Request) {
	known := c.faults()
	at := slices.IndexFunc(known, func(f fault) bool { return f.name == r.PathValue("name") })
	if at < 0 {
		var names []string
		for _, f := range known {
			names = append(names, f.name)
		}
		http.Error(w, fmt.Sprintf("unknown fault (known: %s)", strings.Join(names, ", ")), http.StatusNotFound)
		return
	}
	query := r.URL.Query()
	if err := known[at].do(r.Context(), query.Get("instance"), query.Get("other")); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (c *Cloud) serveStatus(w http.ResponseWriter, r *http.Request) {
	const limit = 1 << 16 // bytes; a status is small
	var wanted moto.Status
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(&wanted); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := c.server.SetStatus(r.Context(), wanted); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone is no fault of ours
}

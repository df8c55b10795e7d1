package proxy

import (
	"encoding/json"
	"net/http"
)

// controls is the control API:
//
//	GET    /rules       rules in force, by name
//	POST   /rules       add one (JSON of Rule); answers {"id": name}
//	DELETE /rules       end all, show what was hidden
//	DELETE /rules/{id}  end one
//	GET    /calls       the call log
//	DELETE /calls       empty it
//	GET    /counts      calls by action
func (p *Proxy) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rules", func(w http.ResponseWriter, _ *http.Request) { reply(w, p.Rules()) })
	mux.HandleFunc("POST /rules", func(w http.ResponseWriter, r *http.Request) {
		var rule Rule
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&rule)
		var id string
		if err == nil {
			id, err = p.Add(rule)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reply(w, map[string]string{"id": id})
	})
	mux.HandleFunc("DELETE /rules", func(http.ResponseWriter, *http.Request) { p.Clear() })
	mux.HandleFunc("DELETE /rules/{id}", func(_ http.ResponseWriter, r *http.Request) { p.Remove(r.PathValue("id")) })
	mux.HandleFunc("GET /calls", func(w http.ResponseWriter, _ *http.Request) { reply(w, p.Calls()) })
	mux.HandleFunc("DELETE /calls", func(http.ResponseWriter, *http.Request) { p.ResetCalls() })
	mux.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) { reply(w, p.Counts()) })
	return mux
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// A client that has gone is no fault of ours.
	_ = json.NewEncoder(w).Encode(v)
}

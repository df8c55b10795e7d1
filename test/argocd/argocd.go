// Package argocd runs the Lua of config/argocd as Argo CD does.
package argocd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Health states of Argo CD.
const (
	Healthy     = "Healthy"
	Progressing = "Progressing"
	Degraded    = "Degraded"
	Suspended   = "Suspended"
)

// Customizations are the Lua scripts of config/argocd/argocd-cm.yaml.
type Customizations struct {
	data    map[string]string
	actions actions
}

// actions are what Argo CD offers for a kind, in the form of its ConfigMap.
type actions struct {
	Discovery   string `json:"discovery.lua"`
	Definitions []struct {
		Name   string `json:"name"`
		Script string `json:"action.lua"`
	} `json:"definitions"`
}

// Load reads the scripts.
func Load() (*Customizations, error) {
	_, here, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "..", "config", "argocd", "argocd-cm.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the customizations: %w", err)
	}
	var cm corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &cm); err != nil {
		return nil, fmt.Errorf("parse the customizations: %w", err)
	}
	c := &Customizations{data: cm.Data}
	if err := yaml.UnmarshalStrict([]byte(cm.Data["resource.customizations.actions.mysql.alx.ke_MySQLCluster"]), &c.actions); err != nil {
		return nil, fmt.Errorf("parse the actions: %w", err)
	}
	return c, nil
}

// Health returns what Argo CD shows of an object, and its message. One that is being deleted it calls Progressing, without a script.
func (c *Customizations) Health(o client.Object) (status, message string, err error) {
	if !o.GetDeletionTimestamp().IsZero() {
		return Progressing, "Pending deletion", nil
	}
	kind := "MySQLCluster"
	if _, ok := o.(*v1alpha1.MySQLBackup); ok {
		kind = "MySQLBackup"
	}
	result, err := run(c.data["resource.customizations.health.mysql.alx.ke_"+kind], o)
	if err != nil {
		return "", "", err
	}
	said, ok := result.(map[string]any)
	if !ok {
		return "", "", fmt.Errorf("the health of %s is %v", o.GetName(), result)
	}
	return fmt.Sprint(said["status"]), fmt.Sprint(said["message"]), nil
}

// Offered returns the names of the actions that Argo CD offers for a cluster, and whether each can be taken.
func (c *Customizations) Offered(o *v1alpha1.MySQLCluster) (map[string]bool, error) {
	result, err := run(c.actions.Discovery, o)
	if err != nil {
		return nil, err
	}
	all, ok := result.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the actions of %s are %v", o.Name, result)
	}
	offered := map[string]bool{}
	for name, action := range all {
		properties, _ := action.(map[string]any)
		offered[name] = properties["disabled"] != true
	}
	return offered, nil
}

// Take returns the cluster as an action leaves it.
func (c *Customizations) Take(action string, o *v1alpha1.MySQLCluster) (*v1alpha1.MySQLCluster, error) {
	for _, d := range c.actions.Definitions {
		if d.Name != action {
			continue
		}
		result, err := run(d.Script, o)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(result)
		if err != nil {
			return nil, fmt.Errorf("encode what %s returned: %w", action, err)
		}
		changed := &v1alpha1.MySQLCluster{}
		if err := json.Unmarshal(text, changed); err != nil {
			return nil, fmt.Errorf("decode what %s returned: %w", action, err)
		}
		return changed, nil
	}
	return nil, fmt.Errorf("no action %s is defined", action)
}

// run runs a script with the object as obj, and returns what the script does. As in Argo CD, only a few libraries are there.
func run(script string, o client.Object) (any, error) {
	content, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", o.GetName(), err)
	}
	var obj any
	if err := json.Unmarshal(content, &obj); err != nil {
		return nil, fmt.Errorf("decode %s: %w", o.GetName(), err)
	}
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.OsLibName: lua.OpenOs,
	} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), NRet: 0, Protect: true}, lua.LString(name)); err != nil {
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
	}
	l.SetGlobal("obj", toLua(l, obj))
	if err := l.DoString(script); err != nil {
		return nil, fmt.Errorf("run the script for %s: %w", o.GetName(), err)
	}
	return fromLua(l.Get(-1)), nil
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		table := l.NewTable()
		for _, item := range v {
			table.Append(toLua(l, item))
		}
		return table
	case map[string]any:
		table := l.NewTable()
		for key, item := range v {
			table.RawSetString(key, toLua(l, item))
		}
		return table
	}
	return lua.LNil
}

func fromLua(value lua.LValue) any {
	table, ok := value.(*lua.LTable)
	switch {
	case !ok && value.Type() == lua.LTNil:
		return nil
	case !ok && value.Type() == lua.LTBool:
		return lua.LVAsBool(value)
	case !ok && value.Type() == lua.LTNumber:
		return float64(lua.LVAsNumber(value))
	case !ok:
		return lua.LVAsString(value)
	}
	if table.Len() > 0 {
		var list []any
		table.ForEach(func(_, item lua.LValue) { list = append(list, fromLua(item)) })
		return list
	}
	object := map[string]any{}
	table.ForEach(func(key, item lua.LValue) { object[lua.LVAsString(key)] = fromLua(item) })
	return object
}

package topology

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// dump writes everything that a value holds.
func dump(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			dump(b, v.Elem())
		}
	case reflect.Struct:
		n := v.NumField()
		if v.Type() == reflect.TypeFor[time.Time]() {
			n = 2 // not its location, which is loaded when it is first read
		}
		for i := range n {
			b.WriteByte(' ')
			dump(b, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		b.WriteByte('[')
		for i := range v.Len() {
			b.WriteByte(' ')
			dump(b, v.Index(i))
		}
		b.WriteByte(']')
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(x, y reflect.Value) int { return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
		for _, key := range keys {
			fmt.Fprint(b, key, ":")
			dump(b, v.MapIndex(key))
		}
	case reflect.String:
		b.WriteString(v.String())
	case reflect.Int, reflect.Int64:
		b.WriteString(strconv.FormatInt(v.Int(), 10))
	default:
		fmt.Fprint(b, v)
	}
}

func dumped(d Desired, o Observed) string {
	var b strings.Builder
	dump(&b, reflect.ValueOf(d))
	dump(&b, reflect.ValueOf(o))
	return b.String()
}

// pureNext decides, and panics when that changed what it was given. The tests of this package decide by it, those of a world now and then.
func pureNext(d Desired, o Observed) Plan {
	given := dumped(d, o)
	p := Next(d, o)
	if now := dumped(d, o); now != given {
		n := 0
		for n < min(len(now), len(given)) && now[n] == given[n] {
			n++
		}
		from := max(0, n-200)
		panic(fmt.Sprintf("Next changed what it was given from\n…%.300s\nto\n…%.300s", given[from:], now[from:]))
	}
	for _, a := range p.Actions {
		if !reflect.TypeOf(Identity(a)).Comparable() {
			panic(fmt.Sprintf("the identity of %T cannot be a key", a))
		}
	}
	return p
}

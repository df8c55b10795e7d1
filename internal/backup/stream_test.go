package backup

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
)

func shelf(t *testing.T) Place {
	t.Helper()
	s, err := store.NewFolder(t.TempDir(), "pvc://backups")
	must(t, err)
	return Place{Store: s, Root: RootOf("shop", "orders", "uid")}
}

// sample is half text and half noise, so that every kind of zstd block comes up.
func sample(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, size)
	for i := range b {
		if i/1000%2 == 0 {
			b[i] = "INSERT INTO `t` VALUES (1,'text');\n"[i%35]
		} else {
			b[i] = byte(r.Uint32())
		}
	}
	return b
}

func unpack(t *testing.T, p Place, s Stream) ([]byte, error) {
	t.Helper()
	r, err := p.Unpack(t.Context(), "f", s)
	must(t, err)
	defer r.Close()
	return io.ReadAll(r)
}

// TestStreamsComeBack, in one object and in several, cut anywhere.
func TestStreamsComeBack(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 3 << 20} {
		for _, limit := range []int64{100, 4096, volumeSize} {
			if size > 1<<20 && limit < 1000 {
				continue
			}
			p, content := shelf(t), sample(size)
			s, err := p.pack(t.Context(), "f", "dump.sql", bytes.NewReader(content), limit)
			must(t, err)
			if s.Bytes != int64(size) {
				t.Errorf("%d bytes instead of %d", s.Bytes, size)
			}
			if back, err := unpack(t, p, s); err != nil || !bytes.Equal(back, content) {
				t.Errorf("size %d in objects of %d: %d came back, %v", size, limit, len(back), err)
			}
		}
	}
}

// TestStreamsThatAreDamaged: every flipped bit, every cut, and objects that are exchanged or missing are noticed, and
// called what they are.
func TestStreamsThatAreDamaged(t *testing.T) {
	p, content := shelf(t), sample(40_000)
	s, err := p.pack(t.Context(), "f", "dump.sql", bytes.NewReader(content), 9000)
	must(t, err)
	if len(s.Objects) < 2 {
		t.Fatalf("%d objects", len(s.Objects))
	}
	damaged := func(what string, key string, with []byte) {
		t.Helper()
		whole, err := store.ReadAll(t.Context(), p.Store, key, 1<<20)
		must(t, err)
		_, err = p.Store.Put(t.Context(), key, bytes.NewReader(with))
		must(t, err)
		if _, err := unpack(t, p, s); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		_, err = p.Store.Put(t.Context(), key, bytes.NewReader(whole))
		must(t, err)
	}
	first := p.Folder("f") + "/" + s.Objects[0].Name
	whole, err := store.ReadAll(t.Context(), p.Store, first, 1<<20)
	must(t, err)
	for at := 0; at < len(whole); at += 1 + len(whole)/200 {
		flipped := slices.Clone(whole)
		flipped[at] ^= 1 << (at % 8)
		damaged("a flipped bit", first, flipped)
		damaged("a cut", first, whole[:at])
	}
	damaged("one more byte", first, append(slices.Clone(whole), 0))
	second, err := store.ReadAll(t.Context(), p.Store, p.Folder("f")+"/"+s.Objects[1].Name, 1<<20)
	must(t, err)
	damaged("the other object", first, second)
	must(t, p.Store.Delete(t.Context(), first))
	if _, err := unpack(t, p, s); !errors.Is(err, ErrCorrupt) || !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a missing object: %v", err)
	}
}

// TestStreamsThatAreGivenUp leave no object that is not whole.
func TestStreamsThatAreGivenUp(t *testing.T) {
	p, broken := shelf(t), errors.New("mysqldump ended")
	source := io.MultiReader(bytes.NewReader(sample(20_000)), failing{broken})
	if _, err := p.pack(t.Context(), "f", "dump.sql", source, volumeSize); !errors.Is(err, broken) {
		t.Errorf("the reason is lost: %v", err)
	}
	for o, err := range p.Store.List(t.Context(), "") {
		must(t, err)
		t.Errorf("it left %s", o.Key)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestRetention keeps what it should, the newest good one whatever it says, and what it does not understand.
func TestRetention(t *testing.T) {
	p := shelf(t)
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	write := func(name, schedule string, age int) {
		m := Manifest{Backup: name, Schedule: schedule, CompletedAt: at.AddDate(0, 0, -age)}
		must(t, p.WriteManifest(t.Context(), FolderOf(m.CompletedAt, name), m))
	}
	for i, name := range []string{"d0", "d1", "d2", "d3"} {
		write(name, "daily", i)
	}
	write("h9", "hourly", 9)
	write("mine", "", 30)
	_, err := p.Store.Put(t.Context(), p.Folder(FolderOf(at.AddDate(0, 0, -5), "torn"))+"/"+manifestName, strings.NewReader("{"))
	must(t, err)
	for _, row := range []struct {
		schedule string
		r        Retention
		want     string
	}{
		{"daily", Retention{}, ""},
		{"", Retention{Count: 1}, ""},
		{"weekly", Retention{Count: 1}, ""},
		{"daily", Retention{Count: 3}, "d3"},
		{"daily", Retention{MaxAge: 36 * 3600e9}, "d2"},
		{"daily", Retention{Count: 1, MaxAge: 1}, "d1"},
		{"daily", Retention{MaxAge: 1}, ""}, // the last good one
		{"hourly", Retention{MaxAge: 1}, "h9"},
	} {
		pruned, err := p.Prune(t.Context(), row.schedule, row.r, at.Add(1))
		if err != nil || strings.Join(pruned, " ") != row.want {
			t.Errorf("%s %+v: pruned %v, %v, want %s", row.schedule, row.r, pruned, err, row.want)
		}
	}
	folders, err := p.Folders(t.Context())
	if err != nil || len(folders) != 3 {
		t.Errorf("left are %v, %v", folders, err)
	}
	if newest, err := p.Newest(t.Context()); err != nil || !strings.HasSuffix(newest, "-d0") {
		t.Errorf("the newest is %s, %v", newest, err)
	}
}

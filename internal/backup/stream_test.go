package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
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

// TestRetention keeps what it should, the newest good one and the last that was verified whatever it says, and what it
// does not understand.
func TestRetention(t *testing.T) {
	p := shelf(t)
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	write := func(name, schedule string, age int) string {
		m := Manifest{Backup: name, Schedule: schedule, CompletedAt: at.AddDate(0, 0, -age)}
		folder := FolderOf(m.CompletedAt, name)
		var err error
		m.Dump, err = p.Pack(t.Context(), folder, "dump.sql", strings.NewReader(name))
		must(t, err)
		must(t, p.WriteManifest(t.Context(), folder, m))
		return p.Folder(folder) + "/"
	}
	folders := map[string]string{}
	for i, name := range []string{"d0", "d1", "d2", "d3"} {
		write(name, "daily", i)
		folders[name] = FolderOf(at.AddDate(0, 0, -i), name)
	}
	write("h9", "hourly", 9)
	folders["h9"] = FolderOf(at.AddDate(0, 0, -9), "h9")
	judge := func(names string, failure error) {
		for _, name := range strings.Fields(names) {
			must(t, p.RecordVerdict(t.Context(), folders[name], failure, at))
		}
	}
	write("mine", "", 30)
	put := func(key, content string) {
		_, err := p.Store.Put(t.Context(), key, strings.NewReader(content))
		must(t, err)
	}
	put(p.Folder(FolderOf(at.AddDate(0, 0, -5), "torn"))+"/"+manifestName, "{")
	// Two that are newer than any other, and no backups: what they hold is gone, or shorter than it was.
	must(t, p.Store.Delete(t.Context(), write("hollow", "daily", -1)+"dump.sql.zst"))
	put(write("short", "daily", -2)+"dump.sql.zst", "x")
	for _, row := range []struct {
		schedule string
		r        Retention
		verified string
		refuted  string
		want     string
	}{
		{"daily", Retention{}, "", "", ""},
		{"", Retention{Count: 1}, "", "", ""},
		{"weekly", Retention{Count: 1}, "", "", ""},
		{"daily", Retention{Count: 4}, "", "", ""},
		{"daily", Retention{Count: 3}, "", "", "d3"},
		{"daily", Retention{Count: 3}, "d3", "", ""},
		{"daily", Retention{Count: 1}, "d0", "", "d1 d2 d3"},
		{"daily", Retention{Count: 1}, "d2 d3", "", "d1 d3"}, // the last that passed
		{"daily", Retention{MaxAge: 36 * 3600e9}, "h9", "", "d2 d3"},
		{"daily", Retention{Count: 1, MaxAge: 1}, "", "", "d1 d2 d3"},
		{"daily", Retention{MaxAge: 1}, "d1", "", "d2 d3"}, // and the last good one
		{"hourly", Retention{MaxAge: 1}, "", "", "h9"},
		// One that a verification refuted keeps nothing else out, and stands for no good one.
		{"daily", Retention{Count: 1}, "", "d0", "d2 d3"},
		{"daily", Retention{Count: 2}, "", "d1", "d3"},
		{"daily", Retention{Count: 1}, "d3", "d1", "d1 d2"},
	} {
		judge(row.verified, nil)
		judge(row.refuted, ErrDiffers)
		surplus, err := p.Surplus(t.Context(), Pruning{Schedule: row.schedule, Retention: row.r, Now: at.Add(1)})
		for _, name := range strings.Fields(row.verified + " " + row.refuted) {
			must(t, p.Store.Delete(t.Context(), p.Folder(folders[name])+"/"+verdictName))
		}
		var names []string
		for _, s := range surplus {
			names = append(names, s.Backup)
			if !strings.HasSuffix(s.Folder, "-"+s.Backup) {
				t.Errorf("%s is in %s", s.Backup, s.Folder)
			}
		}
		if got := strings.Join(names, " "); err != nil || got != row.want {
			t.Errorf("%+v: surplus are %q, %v", row, got, err)
		}
	}
}

// TestABaseTakesNobodysPlace: what the archive begins with is not counted by the schedule whose retention deletes it, and goes once
// it is older than all that this keeps.
func TestABaseTakesNobodysPlace(t *testing.T) {
	p := shelf(t)
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, age := range map[string]int{"d0": 0, "d1": 1, "base1": 1, "d2": 2, "d3": 3, "base9": 9} {
		m := Manifest{Backup: name, Schedule: "daily", Base: strings.HasPrefix(name, "base"), CompletedAt: at.AddDate(0, 0, -age)}
		if m.Base {
			m.CompletedAt = m.CompletedAt.Add(time.Hour)
		}
		must(t, p.WriteManifest(t.Context(), FolderOf(m.CompletedAt, name), m))
	}
	for r, want := range map[Retention]string{
		{Count: 5}: "", {Count: 4}: "base9", {Count: 2}: "d2 d3 base9", {Count: 1}: "base1 d1 d2 d3 base9",
		{MaxAge: 30 * time.Hour}: "d2 d3 base9",
	} {
		surplus, err := p.Surplus(t.Context(), Pruning{Schedule: "daily", Retention: r, Now: at})
		must(t, err)
		var names []string
		for _, s := range surplus {
			names = append(names, s.Backup)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%+v: surplus are %q, not %q", r, got, want)
		}
	}
}

// TestRetentionKeepsTheArchivesBase: newer backups may lack what the archive begins with, because their members were behind.
func TestRetentionKeepsTheArchivesBase(t *testing.T) {
	const uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	p := shelf(t)
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for i, set := range []string{":1-7", ":1-7", ":1-12", ":1-11", ":1-5"} { // d2 and d3 are bases
		name := fmt.Sprintf("d%d", i)
		m := Manifest{Backup: name, Schedule: "daily", CompletedAt: at.AddDate(0, 0, -i), GTIDSet: uuid + set}
		must(t, p.WriteManifest(t.Context(), FolderOf(m.CompletedAt, name), m))
	}
	required := gtid.MustParse(uuid + ":1-10")
	for want, pruning := range map[string]Pruning{
		"d1 d3 d4":    {Retention: Retention{Count: 1}, Required: &required},
		"d1 d2 d3 d4": {Retention: Retention{Count: 1}},
		"d3 d4":       {Retention: Retention{MaxAge: 36 * time.Hour}, Required: &required},
	} {
		pruning.Schedule, pruning.Now = "daily", at
		surplus, err := p.Surplus(t.Context(), pruning)
		must(t, err)
		var names []string
		for _, s := range surplus {
			names = append(names, s.Backup)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("surplus are %q, not %q", got, want)
		}
	}
}

// TestNoScheduleAdoptsWhatAnotherMade: a schedule may keep its dumps for longer than those that are left when it is renamed or removed, and
// so may it a base. A base that no schedule owns goes with one schedule, and takes none of its places.
func TestNoScheduleAdoptsWhatAnotherMade(t *testing.T) {
	p := shelf(t)
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for i, m := range []Manifest{{Schedule: "daily"}, {Schedule: "old"}, {Schedule: "daily"}, {Schedule: "old"}, {Base: true}, {Schedule: "old", Base: true}, {Schedule: "weekly"}, {}} {
		m.Backup, m.CompletedAt = fmt.Sprintf("b%d", i), at.AddDate(0, 0, -i)
		must(t, p.WriteManifest(t.Context(), FolderOf(m.CompletedAt, m.Backup), m))
	}
	for want, bases := range map[string]bool{"": false, "b4": true} {
		for _, r := range []Retention{{Count: 2}, {MaxAge: 60 * time.Hour}} {
			surplus, err := p.Surplus(t.Context(), Pruning{Schedule: "daily", Retention: r, Bases: bases, Now: at})
			must(t, err)
			var names []string
			for _, s := range surplus {
				names = append(names, s.Backup)
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%+v: surplus are %q, not %q", r, got, want)
			}
		}
	}
}

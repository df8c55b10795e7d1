package pass

import (
	"maps"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

const (
	// SettingPause is how long a setting that mysqld refused is not tried again; each further refusal doubles it, up to
	// SettingPauseMost. Another value is tried at once.
	SettingPause     = 30 * time.Second
	SettingPauseMost = 5 * time.Minute
	// returnLimit is how often a setting is put back that was changed again within SettingPauseMost each time. From then on it is put
	// back once in that time.
	returnLimit = 5
)

// settingCache is the outcome of changes to settings. Actions of several members use it in parallel.
type settingCache struct {
	mu sync.Mutex
	// Expected are the settings that were applied to a member and not seen since; taken is what mysqld made of each.
	Expected map[string]map[string]string
	Taken    map[string]string
	// refused are the settings that each member's mysqld did not take, RefusedDatabase what of the application's account cannot be done.
	refused         map[string]map[string]refusedSetting
	RefusedDatabase RefusedDatabase
	// Kept is what became of a setting of a member that was put back and did not stay: it is not put back again.
	Kept map[string]string
	// putBack says how often each setting of a member was put back.
	putBack map[string]putBack
	// StartErrors are what mysqld said when it did not start, of members that run without their persisted settings.
	StartErrors map[string]string
	// restartsAhead are the restarts that are due in the future, by member.
	restartsAhead map[string]futureRestart
}

// Expect notes what was applied to a member; several members are served at the same time.
func (c *settingCache) Expect(member string, settings map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Expected[member] = maps.Clone(settings)
}

// putBack says how often a setting was put back without a longer pause, and when last.
type putBack struct {
	times int
	last  time.Time
}

// PutBack records the values that variables of a member were put back to.
func (c *settingCache) PutBack(member string, settings map[string]string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, value := range settings {
		key := member + " " + name
		c.Kept[key] = value + "\x00"
		was := c.putBack[key]
		if now.Sub(was.last) > 2*SettingPauseMost {
			was.times = 0
		}
		c.putBack[key] = putBack{was.times + 1, now}
	}
}

// Returns says of a setting that was changed whether that happens each time that it is put back, and whether it is put back now.
func (c *settingCache) Returns(member, name string, now time.Time) (always, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.putBack[member+" "+name]
	always = was.times >= returnLimit && now.Sub(was.last) <= 2*SettingPauseMost
	return always, !always || now.Sub(was.last) >= SettingPauseMost
}

// refusedSetting is a value that a member's mysqld did not take.
type refusedSetting struct {
	Value, Why string
	At         time.Time
}

// RefusedDatabase is a password that MySQL did not take, or an account that is somebody else's, by what EnsureDatabase was asked for.
type RefusedDatabase struct {
	Key     string
	Problem *engine.Problem
	At      time.Time
}

// RefuseSettings notes the settings that a member's mysqld refused; several members are served at the same time.
func (c *settingCache) RefuseSettings(member string, want map[string]string, refused map[string]error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused[member] == nil {
		c.refused[member] = map[string]refusedSetting{}
	}
	for name, err := range refused {
		c.refused[member][name] = refusedSetting{Value: want[name], Why: err.Error(), At: now}
	}
}

// restartLead is by how much the clock that a restart was noted with may be ahead.
const restartLead = 5 * time.Second

// futureRestart is a restart that is due in the future, and when it was first seen.
type futureRestart struct{ due, seen int64 }

// Refusals are the settings that a member's mysqld did not take, by name.
func (c *settingCache) Refusals(member string) map[string]refusedSetting {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.refused[member])
}

// ForgetRefusal forgets that a member's mysqld did not take a setting.
func (c *settingCache) ForgetRefusal(member, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refused[member], name)
}

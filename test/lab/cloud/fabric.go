package cloud

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

// The network of the VPC: one bridge in a network namespace of its own.
const (
	fabricNS    = "nairobi-fab"
	bridge      = "br0"
	void        = "void0"
	hostLink    = "nairobi-lab0"
	hostAddress = "10.77.0.2"
	nodeAddress = "10.77.0.3"
	gateway     = "10.77.0.1"
	vpcBits     = "/16"
	imdsAddress = "169.254.169.254"
)

// headerTimeout protects our listeners from half-open clients.
const headerTimeout = 10 * time.Second

type fabric struct {
	base string // a root file system with nft in it

	mu   sync.Mutex
	cuts map[cut]bool
	node int // a process in the Kubernetes node's network namespace; 0: no node
}

func (c *Cloud) startFabric(ctx context.Context) (*fabric, error) {
	if err := c.note(host.Entry{Kind: host.KindNetNS, Name: fabricNS}); err != nil {
		return nil, err
	}
	if err := c.note(host.Entry{Kind: host.KindLink, Name: hostLink}); err != nil {
		return nil, err
	}
	f := &fabric{base: c.base, cuts: map[cut]bool{}}
	steps := []string{
		"ip netns add " + fabricNS,
		"ip -n " + fabricNS + " link set lo up",
		"ip -n " + fabricNS + " link add " + bridge + " type bridge",
		"ip -n " + fabricNS + " addr add " + gateway + vpcBits + " dev " + bridge,
		"ip -n " + fabricNS + " addr add " + imdsAddress + "/32 dev " + bridge,
		// Machines without power are silent, as in EC2: their addresses are
		// routed to a bridge without ports, and ARP is answered for them, so
		// that nobody is told "no route to host".
		"ip -n " + fabricNS + " link add " + void + " arp off type bridge",
		"ip -n " + fabricNS + " link set " + void + " up",
		"ip netns exec " + fabricNS + " sysctl -q -w net.ipv4.ip_forward=1" +
			" net.ipv4.conf." + bridge + ".proxy_arp=1 net.ipv4.neigh." + bridge + ".proxy_delay=0" +
			" net.ipv4.conf." + bridge + ".send_redirects=0",
		"ip -n " + fabricNS + " link set " + bridge + " up",
		"ip link add " + hostLink + " type veth peer name host0 netns " + fabricNS,
		"ip -n " + fabricNS + " link set host0 master " + bridge + " up",
		"ip addr add " + hostAddress + vpcBits + " dev " + hostLink,
		"ip link set " + hostLink + " up",
	}
	return f, runAll(ctx, steps)
}

func runAll(ctx context.Context, steps []string) error {
	for _, s := range steps {
		words := strings.Fields(s)
		if _, err := host.Run(ctx, words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// linkOf is the name of an instance's port on the bridge.
func linkOf(instance string) string {
	const longest = 12 // a name has at most 15 characters
	if len(instance) > longest {
		instance = instance[len(instance)-longest:]
	}
	return "v" + instance
}

// plug gives the machine whose init is pid an interface eth0 on the bridge;
// the machine configures it itself. It goes with the machine's namespace.
func (f *fabric) plug(ctx context.Context, instance, mac, address string, pid int) error {
	// Absent unless the machine was off.
	_, _ = host.Run(ctx, "ip", "-n", fabricNS, "route", "del", address+"/32", "dev", void)
	port := linkOf(instance)
	return runAll(ctx, []string{
		"ip -n " + fabricNS + " link add " + port + " type veth peer name eth0 address " + mac +
			" netns " + strconv.Itoa(pid),
		"ip -n " + fabricNS + " link set " + port + " master " + bridge + " up",
	})
}

// unplug takes a machine's interface away. The end of its processes is not enough: connections that they left behind
// keep the network namespace alive until TCP gives up on them, minutes later, and it would go on answering ARP for an
// address that belongs to another machine by then.
func (f *fabric) unplug(ctx context.Context, instance string) error {
	port := linkOf(instance)
	if _, err := host.Run(ctx, "ip", "-n", fabricNS, "link", "show", "dev", port); err != nil {
		return nil //nolint:nilerr // it went with its namespace
	}
	_, err := host.Run(ctx, "ip", "-n", fabricNS, "link", "del", port)
	if err != nil {
		if _, gone := host.Run(ctx, "ip", "-n", fabricNS, "link", "show", "dev", port); gone != nil {
			return nil //nolint:nilerr // it went meanwhile
		}
	}
	return err
}

// silence makes an address a black hole.
func (f *fabric) silence(ctx context.Context, address string) error {
	_, err := host.Run(ctx, "ip", "-n", fabricNS, "route", "replace", address+"/32", "dev", void)
	return err
}

// release gives a silenced address back.
func (f *fabric) release(ctx context.Context, address string) {
	// It may not have been silenced.
	_, _ = host.Run(ctx, "ip", "-n", fabricNS, "route", "del", address+"/32", "dev", void)
}

// isolate cuts or restores one machine's link; connections then time out.
func (f *fabric) isolate(ctx context.Context, instance string, cut bool) error {
	state := "up"
	if cut {
		state = "down"
	}
	_, err := host.Run(ctx, "ip", "-n", fabricNS, "link", "set", linkOf(instance), state)
	return err
}

// ConnectNode gives the network namespace of a process (the Kubernetes node's)
// a leg in the VPC: the interface fab0 with 10.77.0.3. It goes with that
// namespace.
func (c *Cloud) ConnectNode(pid int) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	inside := "nsenter -n -t " + strconv.Itoa(pid) + " -- "
	err := runAll(ctx, []string{
		"ip -n " + fabricNS + " link add node0 type veth peer name fab0 netns " + strconv.Itoa(pid),
		"ip -n " + fabricNS + " link set node0 master " + bridge + " up",
		inside + "ip addr add " + nodeAddress + vpcBits + " dev fab0",
		inside + "ip link set fab0 up",
	})
	if err != nil {
		return fmt.Errorf("connect the node to the VPC: %w", err)
	}
	c.fabric.mu.Lock()
	defer c.fabric.mu.Unlock()
	c.fabric.node = pid
	return nil
}

// listenIn opens a listening socket inside a named network namespace. The
// socket stays there; this process does not.
func listenIn(netNS, address string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	done := make(chan result)
	go func() {
		listener, err := func() (net.Listener, error) {
			runtime.LockOSThread()
			home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, fmt.Errorf("open our own network namespace: %w", err)
			}
			defer unix.Close(home)
			away, err := unix.Open("/run/netns/"+netNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, fmt.Errorf("open network namespace %s: %w", netNS, err)
			}
			defer unix.Close(away)
			if err := unix.Setns(away, unix.CLONE_NEWNET); err != nil {
				return nil, fmt.Errorf("enter network namespace %s: %w", netNS, err)
			}
			listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", address)
			// A thread that cannot go home stays locked, and ends here.
			if unix.Setns(home, unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
			return listener, err
		}()
		done <- result{listener, err}
	}()
	r := <-done
	return r.listener, r.err
}

func serve(listener net.Listener, handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	go func() { _ = server.Serve(listener) }() // ends with ErrServerClosed at Close
	return server
}

package main

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// board is one dashboard.
type board struct {
	uid, title, description string
	variables               []variable
	rows                    []row
}

// variable is what a person chooses at the top of a dashboard: a value of a label.
type variable struct {
	name, label string
	metric      string // whose label has the values, with the variables before it filled in
	several     bool   // several values, or all, may be chosen
}

type row struct {
	title  string
	panels []panel
}

// panel is one picture: the questions that it asks of Prometheus, and how the answers are shown.
type panel struct {
	kind               kind
	title, description string
	unit               string // one of Grafana's, for a table that of each column
	queries            []query
	width              uint32 // of 24; 0 stands for 8, a single figure is 4 wide
	low, high          *float64
	names              bool             // of a figure: the legend is shown, and not the value
	values             map[string]state // what a figure stands for
	warnAt, badAt      *float64         // from where a figure is orange, and red; red alone below badBelow
	badBelow           *float64
}

// query is an expression, and the legend of its answers; for a table the title and the unit of a column.
type query struct {
	expr, legend, unit string
}

// state is what a value means, and its colour.
type state struct {
	text, color string
}

type kind int

const (
	series   kind = iota // lines over time
	figure               // the newest value, in large letters
	timeline             // states over time, a line for each series
	grid                 // a table of the newest values, a row for each set of labels
)

const (
	green  = "green"
	orange = "orange"
	red    = "red"
	grey   = "text"
	blue   = "blue"
)

var (
	zero = new(0.0)
	one  = new(1.0)
)

// source is the Prometheus that a person chooses at the top.
var source = common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}

// page is a dashboard in the first version of the schema: the second one needs Grafana 12.
type page = dashboard.Dashboard //nolint:staticcheck // see above

// build returns the dashboard as Grafana reads it.
func (b board) build() (page, error) {
	built := dashboard.NewDashboardBuilder(b.title) //nolint:staticcheck // as page
	built.Uid(b.uid).Description(b.description).Tags([]string{"nairobi-mysql"}).
		Time("now-3h", "now").Refresh("30s").Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		Link(dashboard.NewDashboardLinkBuilder("MySQL").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{"nairobi-mysql"}).
			AsDropdown(true).IncludeVars(true).KeepTime(true))
	for _, v := range b.variables {
		asked := fmt.Sprintf("label_values(%s, %s)", v.metric, v.name)
		variable := dashboard.NewQueryVariableBuilder(v.name).Label(v.label).Datasource(source).Definition(asked).
			Query(dashboard.StringOrMap{Map: map[string]any{"query": asked, "refId": v.name}}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
		if v.several {
			variable.Multi(true).IncludeAll(true).AllValue(".+")
		}
		built.WithVariable(variable)
	}
	if b.variables != nil {
		for _, mark := range []struct{ name, expr, title, tags, color string }{
			{"Promotions", `sum by (kind, cluster) (increase(mysqlcluster_promotions_total{namespace=~"$namespace",cluster=~"$cluster"}[2m])) > 0`, "{{kind}}", "cluster", blue},
			{"Alerts", `max by (alertname, severity, cluster) (ALERTS{alertstate="firing",namespace=~"$namespace",cluster=~"$cluster"})`, "{{alertname}}", "severity,cluster", red},
		} {
			built.Annotation(dashboard.NewAnnotationQueryBuilder().Name(mark.name).Datasource(source).Expr(mark.expr).Step("1m").
				TitleFormat(mark.title).TagKeys(mark.tags).Enable(true).IconColor(mark.color))
		}
	}
	for _, r := range b.rows {
		built.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			shown, err := p.build()
			if err != nil {
				return page{}, fmt.Errorf("panel %q: %w", p.title, err)
			}
			built.WithPanel(ready(shown))
		}
	}
	return built.Build()
}

// ready is a panel that is built.
type ready dashboard.Panel

func (r ready) Build() (dashboard.Panel, error) {
	return dashboard.Panel(r), nil
}

// step is the least between two points: what a member is scraped at unless spec.monitoring.interval says otherwise. Grafana makes
// $__rate_interval of it.
var step = "30s"

// build returns the panel with its queries, places it has none.
func (p panel) build() (dashboard.Panel, error) {
	var built dashboard.Panel
	var err error
	height := uint32(8)
	switch p.kind {
	case series:
		built, err = timeseries.NewPanelBuilder().LineWidth(1).FillOpacity(8).ShowPoints(common.VisibilityModeNever).
			Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
			Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).Build()
	case figure:
		height = 4
		text := common.BigValueTextModeAuto
		if p.names {
			text = common.BigValueTextModeName
		}
		built, err = stat.NewPanelBuilder().TextMode(text).GraphMode(common.BigValueGraphModeNone).ColorMode(common.BigValueColorModeBackground).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
			Orientation(common.VizOrientationAuto).Build()
	case timeline:
		height = 7
		built, err = statetimeline.NewPanelBuilder().ShowValue(common.VisibilityModeNever).FillOpacity(80).RowHeight(0.9).
			Legend(common.NewVizLegendOptionsBuilder().ShowLegend(false).DisplayMode(common.LegendDisplayModeHidden).Placement(common.LegendPlacementBottom)).Build()
	case grid:
		height = 10
		built, err = table.NewPanelBuilder().Build()
		p.columns(&built)
	}
	if err != nil {
		return built, err
	}
	built.Title, built.Description, built.Datasource, built.Interval = &p.title, &p.description, &source, &step
	built.GridPos = &dashboard.GridPos{H: height, W: p.span()}
	if built.FieldConfig == nil {
		built.FieldConfig = &dashboard.FieldConfigSource{Overrides: []dashboard.DashboardFieldConfigSourceOverrides{}}
	}
	p.colour(&built.FieldConfig.Defaults)
	for i, q := range p.queries {
		asked := prometheus.NewDataqueryBuilder().Expr(q.expr).RefId(string(rune('A' + i))).LegendFormat(q.legend).Datasource(source)
		switch p.kind {
		case series, timeline:
			asked.Range()
		case figure:
			asked.Instant()
		case grid:
			asked.Instant().Format(prometheus.PromQueryFormatTable)
		}
		target, err := asked.Build()
		if err != nil {
			return built, err
		}
		built.Targets = append(built.Targets, target)
	}
	return built, nil
}

// span is the width of a panel.
func (p panel) span() uint32 {
	switch {
	case p.width != 0:
		return p.width
	case p.kind == figure:
		return 4
	case p.kind == grid:
		return 24
	default:
		return 8
	}
}

// colour says how the values of a panel are written and coloured.
func (p panel) colour(config *dashboard.FieldConfig) {
	if p.unit != "" {
		config.Unit = &p.unit
	}
	config.Min, config.Max = p.low, p.high
	if p.values != nil {
		config.Mappings = []dashboard.ValueMapping{mapping(p.values)}
	}
	steps := []dashboard.Threshold{{Color: green}}
	if p.badBelow != nil {
		steps = []dashboard.Threshold{{Color: red}, {Value: p.badBelow, Color: green}}
	}
	if p.warnAt != nil {
		steps = append(steps, dashboard.Threshold{Value: p.warnAt, Color: orange})
	}
	if p.badAt != nil {
		steps = append(steps, dashboard.Threshold{Value: p.badAt, Color: red})
	}
	if p.kind != series {
		config.Thresholds = &dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: steps}
		config.Color = &dashboard.FieldColor{Mode: dashboard.FieldColorModeIdThresholds}
	}
}

// mapping says what values stand for.
func mapping(values map[string]state) dashboard.ValueMapping {
	options := map[string]dashboard.ValueMappingResult{}
	for value, is := range values {
		options[value] = dashboard.ValueMappingResult{Text: &is.text, Color: &is.color}
	}
	return dashboard.ValueMapping{ValueMap: &dashboard.ValueMap{Type: "value", Options: options}}
}

// columns makes one table of the answers to all queries of a grid, a row for each set of labels, each cluster a link to its dashboard.
func (p panel) columns(built *dashboard.Panel) {
	titles := map[string]any{"namespace": "Namespace", "cluster": "Cluster"}
	order := map[string]any{"namespace": 0, "cluster": 1}
	built.FieldConfig = &dashboard.FieldConfigSource{Overrides: []dashboard.DashboardFieldConfigSourceOverrides{}}
	override := func(column string, properties ...dashboard.DynamicConfigValue) {
		built.FieldConfig.Overrides = append(built.FieldConfig.Overrides, dashboard.DashboardFieldConfigSourceOverrides{
			Matcher: dashboard.MatcherConfig{Id: "byName", Options: column}, Properties: properties,
		})
	}
	for i, q := range p.queries {
		column := "Value #" + string(rune('A'+i))
		if len(p.queries) == 1 {
			column = "Value"
		}
		titles[column], order[column] = q.legend, i+2
		override(q.legend, dashboard.DynamicConfigValue{Id: "unit", Value: q.unit})
	}
	override("Cluster", dashboard.DynamicConfigValue{Id: "links", Value: []map[string]any{{
		"title": "Open the cluster", "url": "/d/" + cluster.uid + "?var-namespace=${__data.fields.Namespace}&var-cluster=${__data.fields.Cluster}&var-datasource=${datasource}&${__url_time_range}",
	}}})
	built.Transformations = []dashboard.DataTransformerConfig{
		{Id: "merge", Options: map[string]any{}},
		{Id: "organize", Options: map[string]any{"excludeByName": map[string]any{"Time": true}, "renameByName": titles, "indexByName": order}},
	}
}

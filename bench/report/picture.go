package report

import (
	"fmt"
	"html"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// Picture is a drawing that can be written as SVG or as PNG. Coordinates are
// pixels from the upper left corner.
type Picture struct {
	Width, Height int
	shapes        []shape
}

// shape is a line through points, a filled rectangle (two points), or a text.
type shape struct {
	points []point
	color  color.RGBA
	width  float64 // of a line; 0 fills a rectangle
	text   string
	align  float64 // of a text: 0 starts at its point, 0.5 is centred, 1 ends there
}

type point struct{ x, y float64 }

var (
	ink    = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faint  = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
	colors = []color.RGBA{
		{0x1f, 0x77, 0xb4, 0xff}, {0xd6, 0x27, 0x28, 0xff}, {0x2c, 0xa0, 0x2c, 0xff},
		{0xff, 0x7f, 0x0e, 0xff}, {0x94, 0x67, 0xbd, 0xff}, {0x8c, 0x56, 0x4b, 0xff},
	}
)

func colorOf(i int) color.RGBA { return colors[i%len(colors)] }

func (p *Picture) line(c color.RGBA, width float64, points ...point) {
	p.shapes = append(p.shapes, shape{points: points, color: c, width: width})
}

func (p *Picture) box(c color.RGBA, from, to point) {
	p.shapes = append(p.shapes, shape{points: []point{from, to}, color: c})
}

func (p *Picture) label(at point, align float64, text string) {
	p.shapes = append(p.shapes, shape{points: []point{at}, color: ink, text: text, align: align})
}

// SVG returns the picture as an element that can stand in a page or alone.
func (p *Picture) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		p.Width, p.Height, p.Width, p.Height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", p.Width, p.Height)
	for _, s := range p.shapes {
		s.svg(&b)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (s *shape) svg(b *strings.Builder) {
	paint := fmt.Sprintf("#%02x%02x%02x", s.color.R, s.color.G, s.color.B)
	switch from := s.points[0]; {
	case s.text != "":
		anchor := map[float64]string{0: "start", 0.5: "middle", 1: "end"}[s.align]
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", from.x, from.y, anchor, paint, html.EscapeString(s.text))
	case s.width == 0:
		to := s.points[1]
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
			min(from.x, to.x), min(from.y, to.y), math.Abs(to.x-from.x), math.Abs(to.y-from.y), paint)
	default:
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="%.1f" points="`, paint, s.width)
		for _, q := range s.points {
			fmt.Fprintf(b, "%.1f,%.1f ", q.x, q.y)
		}
		b.WriteString("\"/>\n")
	}
}

// PNG paints the picture.
func (p *Picture) PNG(w io.Writer) error {
	canvas := image.NewRGBA(image.Rect(0, 0, p.Width, p.Height))
	draw.Draw(canvas, canvas.Bounds(), image.White, image.Point{}, draw.Src)
	for _, s := range p.shapes {
		s.paint(canvas)
	}
	return png.Encode(w, canvas)
}

func (s *shape) paint(canvas *image.RGBA) {
	if s.text != "" {
		s.paintText(canvas)
		return
	}
	r := vector.NewRasterizer(canvas.Bounds().Dx(), canvas.Bounds().Dy())
	if s.width == 0 {
		a, b := s.points[0], s.points[1]
		fill(r, a, point{b.x, a.y}, b, point{a.x, b.y})
	}
	for i := 1; i < len(s.points) && s.width > 0; i++ {
		a, b := s.points[i-1], s.points[i]
		length := math.Hypot(b.x-a.x, b.y-a.y)
		if length == 0 {
			continue
		}
		dx, dy := (b.y-a.y)/length*s.width/2, (a.x-b.x)/length*s.width/2
		fill(r, point{a.x + dx, a.y + dy}, point{b.x + dx, b.y + dy}, point{b.x - dx, b.y - dy}, point{a.x - dx, a.y - dy})
	}
	r.Draw(canvas, canvas.Bounds(), image.NewUniform(s.color), image.Point{})
}

func fill(r *vector.Rasterizer, corners ...point) {
	r.MoveTo(float32(corners[0].x), float32(corners[0].y))
	for _, c := range corners[1:] {
		r.LineTo(float32(c.x), float32(c.y))
	}
	r.ClosePath()
}

// paintText knows ASCII only; other characters are spelt.
func (s *shape) paintText(canvas *image.RGBA) {
	text := strings.NewReplacer("µ", "u", "≤", "<=", "–", "-").Replace(s.text)
	d := font.Drawer{Dst: canvas, Src: image.NewUniform(s.color), Face: basicfont.Face7x13}
	width := float64(d.MeasureString(text)) / 64
	d.Dot = fixed.P(int(s.points[0].x-s.align*width), int(s.points[0].y))
	d.DrawString(text)
}

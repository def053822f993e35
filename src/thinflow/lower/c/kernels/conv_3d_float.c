typedef struct {
    int32_t batches;
    int32_t in_size[3], out_size[3], window[3], stride[3], dilation[3], before[3]; /* depth, height, width */
    int32_t in_channels, out_channels;
    float min, max;
} ${name}_t;

/* x [n,d,h,w,c], w [kd,kh,kw,c,k] -> y [n,od,oh,ow,k]. */
static void $name(const float *x, float *y, const float *w, const float *bias, const ${name}_t *s)
{
    const int32_t in = s->in_channels, out = s->out_channels;
    for (int32_t b = 0; b < s->batches; b++, x += s->in_size[0] * s->in_size[1] * s->in_size[2] * in) {
        for (int32_t at = 0; at < s->out_size[0] * s->out_size[1] * s->out_size[2]; at++, y += out) {
            const int32_t at_x = at % s->out_size[2], at_y = at / s->out_size[2] % s->out_size[1];
            const int32_t at_z = at / s->out_size[2] / s->out_size[1];
            memcpy(y, bias, (size_t)out * sizeof *y);
            for (int32_t i = 0; i < s->window[0] * s->window[1] * s->window[2]; i++) {
                const int32_t i_x = i % s->window[2], i_y = i / s->window[2] % s->window[1];
                const int32_t i_z = i / s->window[2] / s->window[1];
                const int32_t from_z = at_z * s->stride[0] - s->before[0] + i_z * s->dilation[0];
                const int32_t from_y = at_y * s->stride[1] - s->before[1] + i_y * s->dilation[1];
                const int32_t from_x = at_x * s->stride[2] - s->before[2] + i_x * s->dilation[2];
                if (from_z < 0 || from_z >= s->in_size[0] || from_y < 0 || from_y >= s->in_size[1] || from_x < 0 ||
                    from_x >= s->in_size[2]) {
                    continue;
                }
                const float *point = x + ((from_z * s->in_size[1] + from_y) * s->in_size[2] + from_x) * in;
                for (int32_t c = 0; c < in; c++) {
                    const float *filters = w + (i * in + c) * out;
                    for (int32_t k = 0; k < out; k++) {
                        y[k] += point[c] * filters[k];
                    }
                }
            }
            for (int32_t k = 0; k < out; k++) {
                y[k] = y[k] < s->min ? s->min : y[k] > s->max ? s->max : y[k];
            }
        }
    }
}

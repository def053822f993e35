typedef struct {
    int32_t batches;
    int32_t in_size[3], out_size[3], window[3], stride[3], dilation[3], before[3]; /* depth, height, width */
    int32_t in_channels, out_channels;
    float min, max;
} ${name}_t;

/* x [n,d,h,w,c], w [kd,kh,kw,k,c] -> y [n,od,oh,ow,k]: each point of the input spreads over a window of the output. */
static void $name(const float *x, float *y, const float *w, const float *bias, const ${name}_t *s)
{
    const int32_t in = s->in_channels, out = s->out_channels, size = s->out_size[0] * s->out_size[1] * s->out_size[2];
    for (int32_t b = 0; b < s->batches; b++, y += size * out) {
        for (int32_t at = 0; at < size; at++) {
            memcpy(y + at * out, bias, (size_t)out * sizeof *y);
        }
        for (int32_t at = 0; at < s->in_size[0] * s->in_size[1] * s->in_size[2]; at++, x += in) {
            const int32_t at_x = at % s->in_size[2], at_y = at / s->in_size[2] % s->in_size[1];
            const int32_t at_z = at / s->in_size[2] / s->in_size[1];
            for (int32_t i = 0; i < s->window[0] * s->window[1] * s->window[2]; i++) {
                const int32_t i_x = i % s->window[2], i_y = i / s->window[2] % s->window[1];
                const int32_t i_z = i / s->window[2] / s->window[1];
                const int32_t to_z = at_z * s->stride[0] - s->before[0] + i_z * s->dilation[0];
                const int32_t to_y = at_y * s->stride[1] - s->before[1] + i_y * s->dilation[1];
                const int32_t to_x = at_x * s->stride[2] - s->before[2] + i_x * s->dilation[2];
                if (to_z < 0 || to_z >= s->out_size[0] || to_y < 0 || to_y >= s->out_size[1] || to_x < 0 ||
                    to_x >= s->out_size[2]) {
                    continue;
                }
                float *point = y + ((to_z * s->out_size[1] + to_y) * s->out_size[2] + to_x) * out;
                for (int32_t k = 0; k < out; k++) {
                    const float *filter = w + (i * out + k) * in;
                    for (int32_t c = 0; c < in; c++) {
                        point[k] += x[c] * filter[c];
                    }
                }
            }
        }
        for (int32_t i = 0; i < size * out; i++) {
            y[i] = y[i] < s->min ? s->min : y[i] > s->max ? s->max : y[i];
        }
    }
}

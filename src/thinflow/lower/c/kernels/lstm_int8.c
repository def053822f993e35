#include "scale_twice.c"
#include "fixed_16.c"

/* One of the gates: weights [units, inputs] and [units, units], and their sums at 12 bits behind the point. */
typedef struct {
    const int8_t *weights, *recurrent;
    const int32_t *bias, *recurrent_bias; /* with the zero points of what the weights are multiplied with */
    int32_t multiplier, shift, recurrent_multiplier, recurrent_shift;
} lstm_gate_t;

typedef struct {
    int32_t batches, steps, batch_step, time_step; /* elements of the input from one to the next */
    int32_t y_batch_step, y_time_step;
    int32_t inputs, units;
    lstm_gate_t input, forget, cell, output;
    int32_t cell_bits, cell_limit; /* of the cell: integer bits, and the most it may be; 0 for all */
    int32_t multiplier, shift, zero_point;
} ${name}_t;

static int32_t lstm_sum(const lstm_gate_t *gate, const int8_t *x, const int8_t *h, int32_t inputs, int32_t units, int32_t unit)
{
    const int8_t *w = gate->weights + unit * inputs, *r = gate->recurrent + unit * units;
    int32_t sum = gate->bias[unit], more = gate->recurrent_bias[unit];
    for (int32_t k = 0; k < inputs; k++) {
        sum += w[k] * x[k];
    }
    for (int32_t k = 0; k < units; k++) {
        more += r[k] * h[k];
    }
    return clamp_16(clamp_16(scale_twice(sum, gate->multiplier, gate->shift)) +
                    scale_twice(more, gate->recurrent_multiplier, gate->recurrent_shift));
}

/* A layer of LSTM cells over all steps. h [batches, units] and c [batches, units] stay from run to run. */
static void $name(const int8_t *x, int8_t *y, int8_t *h, int16_t *c, int16_t *outputs, const ${name}_t *s)
{
    for (int32_t step = 0; step < s->steps; step++) {
        for (int32_t b = 0; b < s->batches; b++) {
            const int8_t *in = x + step * s->time_step + b * s->batch_step;
            int8_t *state = h + b * s->units;
            int16_t *cell = c + b * s->units;
            for (int32_t u = 0; u < s->units; u++) {
                const int32_t i = sigmoid_16(lstm_sum(&s->input, in, state, s->inputs, s->units, u));
                const int32_t f = sigmoid_16(lstm_sum(&s->forget, in, state, s->inputs, s->units, u));
                const int32_t g = tanh_16(lstm_sum(&s->cell, in, state, s->inputs, s->units, u), 3);
                const int32_t o = sigmoid_16(lstm_sum(&s->output, in, state, s->inputs, s->units, u));
                int32_t value = clamp_16(halved(f * cell[u], 15) + halved(i * g, 15 + s->cell_bits));
                if (s->cell_limit > 0) {
                    value = value < -s->cell_limit ? -s->cell_limit : value > s->cell_limit ? s->cell_limit : value;
                }
                cell[u] = (int16_t)value;
                outputs[u] = (int16_t)o;
            }
            /* All sums read the old state: only now may it change. */
            for (int32_t u = 0; u < s->units; u++) {
                const int32_t product = outputs[u] * tanh_16(cell[u], s->cell_bits);
                const int32_t value = scale_twice(product, s->multiplier, s->shift) + s->zero_point;
                state[u] = (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
            }
            memcpy(y + step * s->y_time_step + b * s->y_batch_step, state, (size_t)s->units);
        }
    }
}

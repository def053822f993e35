#include "lanes_$isa.c"

/* Windows in a panel, and filters of which some stand side by side in registers. */
typedef struct {
    int32_t lines, line_step;   /* of a window, and elements of the panel from one to the next */
    int32_t pieces, piece_step; /* of a line, likewise */
    int32_t groups;             /* of elements in a piece */
    int32_t filters;
    output_t output;
} product_lanes_t;

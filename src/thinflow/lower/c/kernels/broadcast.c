/* How the elements of two inputs meet: those of the output along four dimensions, and the steps from one to the next, 0 where
   an input has one for all. */
typedef struct {
    int32_t count[4], a_step[4], b_step[4];
} broadcast_t;

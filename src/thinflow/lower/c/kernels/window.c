/* Where the windows of a convolution or a pool lie. */
typedef struct {
    int32_t batches, in_height, in_width, in_channels;
    int32_t out_height, out_width, out_channels;
    int32_t height, width;            /* of the window */
    int32_t stride_y, stride_x, dilation_y, dilation_x;
    int32_t pad_top, pad_left;
} window_t;

package android.graphics

import java.io.ByteArrayInputStream
import javax.imageio.ImageIO

class Bitmap(val width: Int, val height: Int, private val pixels: IntArray) {
    enum class Config { ARGB_8888 }

    fun getPixels(into: IntArray, offset: Int, stride: Int, x: Int, y: Int, width: Int, height: Int) {
        check(listOf(offset, stride, x, y, width, height) == listOf(0, this.width, 0, 0, this.width, this.height))
        pixels.copyInto(into)
    }
}

object BitmapFactory {
    class Options {
        var inPremultiplied = true
        var inScaled = true
        var inPreferredConfig: Bitmap.Config? = null
    }

    fun decodeByteArray(content: ByteArray, offset: Int, length: Int, options: Options): Bitmap? {
        check(!options.inPremultiplied && !options.inScaled && options.inPreferredConfig == Bitmap.Config.ARGB_8888)
        val image = ImageIO.read(ByteArrayInputStream(content, offset, length)) ?: return null
        val levels = image.raster
        val pixels = IntArray(image.width * image.height) { at ->
            // Java would convert grey levels by a curve; Android leaves them.
            val bands = levels.getPixel(at % image.width, at / image.width, null as IntArray?)
            val (red, green, blue) = if (bands.size < 3) List(3) { bands[0] } else bands.toList()
            (0xFF shl 24) or (red shl 16) or (green shl 8) or blue
        }
        return Bitmap(image.width, image.height, pixels)
    }
}

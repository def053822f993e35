// Views, to be compiled against; nothing of them is run.

package android.view

import android.content.Context
import android.graphics.Bitmap

open class View(val context: Context) {
    var fitsSystemWindows = false
    private var listener: ((View) -> Unit)? = null

    fun setOnClickListener(action: (View) -> Unit) {
        listener = action
    }
}

open class ViewGroup(context: Context) : View(context) {
    private val views = mutableListOf<View>()

    fun addView(view: View) {
        views += view
    }
}

open class Text(context: Context) : View(context) {
    var text: CharSequence = ""
    var textSize = 0f

    fun setText(resource: Int) {
        text = resource.toString()
    }
}

open class Image(context: Context) : View(context) {
    var adjustViewBounds = false
    private var shown: Bitmap? = null

    fun setImageBitmap(bitmap: Bitmap?) {
        shown = bitmap
    }
}

open class Line(context: Context) : ViewGroup(context) {
    var orientation = 0

    companion object {
        const val VERTICAL = 1
    }
}

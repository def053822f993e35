package android.widget

import android.content.Context
import android.view.Image
import android.view.Line
import android.view.Text
import android.view.ViewGroup

class Button(context: Context) : Text(context)

class TextView(context: Context) : Text(context)

class ImageView(context: Context) : Image(context)

class LinearLayout(context: Context) : Line(context) {
    companion object {
        const val VERTICAL = Line.VERTICAL
    }
}

class ScrollView(context: Context) : ViewGroup(context)
